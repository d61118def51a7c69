-- register_child: Register a child that is about to be started.
INSERT INTO children (
  id, boot_id, parent_pid, parent_start_ticks, command_digest, home, registered_at
) VALUES (:id, :boot_id, :parent_pid, :parent_start_ticks, :command_digest, :home, :now);

-- note_child: Note which process a child is; no row if there is no such child.
UPDATE children
SET pid = :pid, start_ticks = :start_ticks, process_group = :process_group,
  command_digest = :command_digest
WHERE id = :id
RETURNING id;

-- close_child: Note that nothing of a child runs any more.
UPDATE children SET closed_at = :now, closed_because = :because
WHERE id = :id AND closed_at IS NULL;

-- forget_children: Drop closed children but the newest ones.
DELETE FROM children
WHERE closed_at IS NOT NULL AND id NOT IN (
  SELECT id FROM children WHERE closed_at IS NOT NULL ORDER BY closed_at DESC, id DESC LIMIT :keep
);

-- open_children: Read the children that may still run, the oldest first.
SELECT id, boot_id, parent_pid, parent_start_ticks, pid, start_ticks, process_group,
  command_digest, home, registered_at, closed_at, closed_because
FROM children WHERE closed_at IS NULL ORDER BY registered_at, id;

-- closed_children: Read the children that were closed last.
SELECT id, boot_id, parent_pid, parent_start_ticks, pid, start_ticks, process_group,
  command_digest, home, registered_at, closed_at, closed_because
FROM children WHERE closed_at IS NOT NULL ORDER BY closed_at DESC, id DESC LIMIT :limit;
