-- generation_exists: Find out whether a generation is known.
SELECT 1 FROM generations WHERE session_id = :session_id;

-- claim_of: Read who may write a generation.
SELECT lease_epoch, run_id FROM claims WHERE session_id = :session_id;

-- take_claim: Give the right to write to a run; whoever held it loses it.
INSERT INTO claims (session_id, lease_epoch, run_id, taken_at)
VALUES (:session_id, 1, :run_id, :now)
ON CONFLICT (session_id) DO UPDATE SET
  lease_epoch = lease_epoch + 1, run_id = excluded.run_id, taken_at = excluded.taken_at;

-- give_claim_back: Take the right to write from the run that gives it back, if it still has it.
UPDATE claims SET run_id = NULL
WHERE session_id = :session_id AND lease_epoch = :lease_epoch AND run_id = :run_id;

-- active_branch: Read where the next entry of a generation goes.
SELECT b.branch, b.entry_count, b.message_count, b.head
FROM generations g JOIN branches b ON b.branch = g.branch
WHERE g.session_id = :session_id;

-- branch_path: Read the branches of the active path, the root first, with where each one forks.
WITH RECURSIVE path (branch, parent, fork_depth, fork_position, entry_count, message_count, step)
AS (
  SELECT b.branch, b.parent, b.fork_depth, b.fork_position, b.entry_count, b.message_count, 0
  FROM generations g JOIN branches b ON b.branch = g.branch
  WHERE g.session_id = :session_id
  UNION ALL
  SELECT b.branch, b.parent, b.fork_depth, b.fork_position, b.entry_count, b.message_count,
    p.step + 1
  FROM path p JOIN branches b ON b.branch = p.parent
)
SELECT branch, fork_depth, fork_position, entry_count, message_count FROM path ORDER BY step DESC;

-- grow_branch: Write down how long the path of a branch is now.
UPDATE branches SET entry_count = :entry_count, message_count = :message_count, head = :head
WHERE branch = :branch;

-- add_entry: Store an entry.
INSERT INTO entries (id, session_id, branch, depth, position, parent, kind, key, role, host_only,
  content_hash, thread_id, turn_id, run_id, created_at, meta, content, raw_items)
VALUES (:id, :session_id, :branch, :depth, :position, :parent, :kind, :key, :role, :host_only,
  :content_hash, :thread_id, :turn_id, :run_id, :created_at, :meta, :content, :raw_items);

-- index_entry: Put the words of an entry into the index.
INSERT INTO entry_words (rowid, body) VALUES (:seq, :words);

-- entry_by_key: Find the entry of a generation that a producer's key names.
SELECT id, session_id, depth, position, parent, kind, key, role, host_only, content_hash,
  thread_id, turn_id, run_id, created_at, meta, content, raw_items
FROM entries WHERE session_id = :session_id AND key = :key;

-- messages_by_position: Read messages of a branch from a position on, before another.
SELECT id, role, created_at, content
FROM entries WHERE branch = :branch AND position >= :start AND position < :stop
ORDER BY position;

-- stored_by_position: Read messages of a branch with their hashes, as `messages_by_position` does.
SELECT id, role, created_at, content, content_hash
FROM entries WHERE branch = :branch AND position >= :start AND position < :stop
ORDER BY position;

-- entries_by_position: Read entries of a branch that are messages, from a position on.
SELECT id, session_id, depth, position, parent, kind, key, role, host_only, content_hash,
  thread_id, turn_id, run_id, created_at, meta, content, raw_items
FROM entries WHERE branch = :branch AND position >= :start AND position < :stop
ORDER BY position;

-- entries_by_depth: Read entries of all kinds of a branch from a depth on, before another.
SELECT id, session_id, depth, position, parent, kind, key, role, host_only, content_hash,
  thread_id, turn_id, run_id, created_at, meta, content, raw_items
FROM entries WHERE branch = :branch AND depth >= :start AND depth < :stop
ORDER BY depth
LIMIT :limit;

-- entries_by_id: Read messages by their ids, given as a JSON array, each with its branch.
SELECT e.id, e.session_id, e.depth, e.position, e.parent, e.kind, e.key, e.role, e.host_only,
  e.content_hash, e.thread_id, e.turn_id, e.run_id, e.created_at, e.meta, e.content, e.raw_items,
  e.branch
FROM json_each(:ids) wanted CROSS JOIN entries e ON e.id = wanted.value
WHERE e.position IS NOT NULL;

-- search_entries: Find entries that a living session holds by words and more, best first, then newest.
WITH best AS (
  SELECT e.seq, bm25(entry_words) AS rank, coalesce(:session_key, iif(s.deleted_key IS NULL, s.key, (
    WITH RECURSIVE holding (branch) AS (
      SELECT e.branch
      UNION ALL
      SELECT b.branch FROM holding h
      JOIN branches b ON b.parent = h.branch AND b.fork_depth > e.depth
    )
    SELECT min(o.key) FROM holding h
    JOIN branches b ON b.branch = h.branch
    JOIN generations og ON og.session_id = b.session_id
    JOIN sessions o ON o.key = og.session_key
    WHERE o.deleted_key IS NULL
  ))) AS shown_in
  FROM entry_words w
  JOIN entries e ON e.seq = w.rowid
  JOIN generations g ON g.session_id = e.session_id
  JOIN sessions s ON s.key = g.session_key
  WHERE entry_words MATCH :words
    AND (:session_key IS NULL OR s.key = :session_key OR EXISTS (
      SELECT 1 FROM json_each(:inherited) i
      WHERE i.value ->> 0 = e.branch AND i.value ->> 1 > e.depth))
    AND (:agent_id IS NULL OR s.agent_id = :agent_id)
    AND (:owner IS NULL OR s.owner = :owner)
    AND (:role IS NULL OR e.role = :role)
    AND (:since IS NULL OR e.created_at >= :since)
    AND (:until IS NULL OR e.created_at <= :until)
    AND shown_in IS NOT NULL
  ORDER BY rank, e.seq DESC
  LIMIT :limit
)
SELECT e.id, e.session_id, e.depth, e.position, e.parent, e.kind, e.key, e.role, e.host_only,
  e.content_hash, e.thread_id, e.turn_id, e.run_id, e.created_at, e.meta, e.content, e.raw_items,
  best.shown_in
FROM best JOIN entries e ON e.seq = best.seq
ORDER BY best.rank, best.seq DESC;

-- recent_entries: List entries that a living session holds by what is known of them, newest first.
SELECT e.id, e.session_id, e.depth, e.position, e.parent, e.kind, e.key, e.role, e.host_only,
  e.content_hash, e.thread_id, e.turn_id, e.run_id, e.created_at, e.meta, e.content, e.raw_items,
  coalesce(:session_key, iif(s.deleted_key IS NULL, s.key, (
    WITH RECURSIVE holding (branch) AS (
      SELECT e.branch
      UNION ALL
      SELECT b.branch FROM holding h
      JOIN branches b ON b.parent = h.branch AND b.fork_depth > e.depth
    )
    SELECT min(o.key) FROM holding h
    JOIN branches b ON b.branch = h.branch
    JOIN generations og ON og.session_id = b.session_id
    JOIN sessions o ON o.key = og.session_key
    WHERE o.deleted_key IS NULL
  ))) AS shown_in
FROM entries e
JOIN generations g ON g.session_id = e.session_id
JOIN sessions s ON s.key = g.session_key
WHERE (:session_key IS NULL OR s.key = :session_key OR EXISTS (
    SELECT 1 FROM json_each(:inherited) i
    WHERE i.value ->> 0 = e.branch AND i.value ->> 1 > e.depth))
  AND (:agent_id IS NULL OR s.agent_id = :agent_id)
  AND (:owner IS NULL OR s.owner = :owner)
  AND (:role IS NULL OR e.role = :role)
  AND (:since IS NULL OR e.created_at >= :since)
  AND (:until IS NULL OR e.created_at <= :until)
  AND shown_in IS NOT NULL
ORDER BY e.seq DESC
LIMIT :limit;
