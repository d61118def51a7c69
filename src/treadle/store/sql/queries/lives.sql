-- fence_generation: Take the right to write a generation from whoever has it; nobody has it then.
INSERT INTO claims (session_id, lease_epoch, run_id, taken_at) VALUES (:session_id, 1, NULL, :now)
ON CONFLICT (session_id) DO UPDATE SET
  lease_epoch = lease_epoch + 1, run_id = NULL, taken_at = excluded.taken_at;

-- generation_is_current: Find out whether a generation is the current one of a living session.
SELECT s.session_id = g.session_id AND s.deleted_key IS NULL
FROM generations g JOIN sessions s ON s.key = g.session_key
WHERE g.session_id = :session_id;

-- entry_place: Find where an entry lies and whose it is.
SELECT e.id, e.branch, e.depth, e.run_id, e.turn_id, e.role, e.content, g.session_key
FROM entries e JOIN generations g ON g.session_id = e.session_id
WHERE e.id = :id;

-- entry_place_in: Find the entry of a branch at a depth.
SELECT e.id, e.branch, e.depth, e.run_id, e.turn_id, e.role, e.content, g.session_key
FROM entries e JOIN generations g ON g.session_id = e.session_id
WHERE e.branch = :branch AND e.depth = :depth;

-- run_span: Find the first and the last depth of a run on a branch.
SELECT min(depth), max(depth) FROM entries WHERE branch = :branch AND run_id = :run_id;

-- positions_up_to: Count the messages of a branch's path up to a depth.
SELECT coalesce(
  (SELECT max(position) + 1 FROM entries
    WHERE branch = :branch AND depth <= :depth AND position IS NOT NULL),
  (SELECT fork_position FROM branches WHERE branch = :branch));

-- copy_session: Store a session like another one, under a new key.
INSERT INTO sessions (key, session_id, generation, agent_id, owner, cwd, title, created_at,
  updated_at, used_seq, settings)
SELECT :new_key, :session_id, 1, agent_id, owner, cwd, title, :now, :now,
  (SELECT max(used_seq) + 1 FROM sessions), settings
FROM sessions WHERE key = :key;

-- set_aside_session: Make room for the copy of a session that keeps its generation's id.
UPDATE sessions SET session_id = 'moved:' || session_id WHERE key = :key;

-- add_deleted_session: Store what stays of a deleted session, under a key that nobody can name.
INSERT INTO sessions (key, session_id, generation, agent_id, owner, cwd, title, created_at,
  updated_at, used_seq, settings, deleted_key, deleted_at)
SELECT :new_key, :session_id, generation, agent_id, owner, cwd, title, created_at, :now, used_seq,
  settings, key, :now
FROM sessions WHERE key = :key;

-- move_generations: Give the generations of a session to another one.
UPDATE generations SET session_key = :new_key WHERE session_key = :key;

-- move_inbox: Give the messages of a session to another one.
UPDATE inbox SET session_key = :new_key WHERE session_key = :key;

-- move_deliveries: Give the deliveries of a session to another one.
UPDATE deliveries SET session_key = :new_key WHERE session_key = :key;

-- drop_session: Remove the row of a session whose generations are somebody else's by now.
DELETE FROM sessions WHERE key = :key;

-- path_of_branch: Read the branches of a path that ends in a branch, the root first.
WITH RECURSIVE path (branch, parent, fork_depth, fork_position, entry_count, message_count, step)
AS (
  SELECT branch, parent, fork_depth, fork_position, entry_count, message_count, 0
  FROM branches WHERE branch = :branch
  UNION ALL
  SELECT b.branch, b.parent, b.fork_depth, b.fork_position, b.entry_count, b.message_count,
    p.step + 1
  FROM path p JOIN branches b ON b.branch = p.parent
)
SELECT branch, fork_depth, fork_position, entry_count, message_count FROM path ORDER BY step DESC;

-- drop_events: Forget the events of a stream; its numbers go on.
DELETE FROM stream_events WHERE stream = :stream;

-- open_messages: Count the messages of a session that have no end yet.
SELECT count(*) FROM inbox WHERE session_key = :key AND state IN ('accepted', 'running');
