-- session_by_key: Find a session with the number of entries of its current generation.
SELECT s.key, s.session_id, s.generation, s.agent_id, s.owner, s.cwd, s.title, s.created_at,
  s.updated_at, b.entry_count, s.settings, g.origin
FROM sessions s
JOIN generations g ON g.session_id = s.session_id
JOIN branches b ON b.branch = g.branch
WHERE s.key = :key;

-- sessions_by_use: List sessions, the last used first, of one agent or owner where one is given.
SELECT s.key, s.session_id, s.generation, s.agent_id, s.owner, s.cwd, s.title, s.created_at,
  s.updated_at, b.entry_count, s.settings, g.origin
FROM sessions s
JOIN generations g ON g.session_id = s.session_id
JOIN branches b ON b.branch = g.branch
WHERE s.deleted_key IS NULL
  AND (:agent_id IS NULL OR s.agent_id = :agent_id) AND (:owner IS NULL OR s.owner = :owner)
ORDER BY s.used_seq DESC
LIMIT :limit;

-- add_session: Store a new session; its first generation is added beside it.
INSERT INTO sessions (key, session_id, generation, agent_id, owner, cwd, title, created_at,
  updated_at, used_seq, settings)
VALUES (:key, :session_id, 1, :agent_id, :owner, :cwd, '', :now, :now,
  (SELECT coalesce(max(used_seq), 0) + 1 FROM sessions), '{}');

-- add_generation: Store a generation whose active branch is the given one.
INSERT INTO generations (session_id, session_key, generation, branch, created_at, origin)
VALUES (:session_id, :key, :generation, :branch, :now, :origin);

-- next_branch: Choose the number of the next branch.
SELECT coalesce(max(branch), 0) + 1 FROM branches;

-- add_branch: Store an empty branch, forked where its parent's path has the given counts.
INSERT INTO branches (branch, session_id, parent, fork_depth, fork_position, entry_count,
  message_count, head, created_at)
VALUES (:branch, :session_id, :parent, :depth, :position, :depth, :position, :head, :now);

-- activate_branch: Make another branch the active one of its generation.
UPDATE generations SET branch = :branch WHERE session_id = :session_id;

-- activate_generation: Make another generation the current one of its session.
UPDATE sessions SET session_id = :session_id, generation = :generation WHERE key = :key;

-- change_session: Replace what was given of working folder, title and settings.
UPDATE sessions SET cwd = coalesce(:cwd, cwd), title = coalesce(:title, title),
  settings = coalesce(:settings, settings)
WHERE key = :key;

-- touch_session: Note that a session was used now, by its key.
UPDATE sessions
SET updated_at = :now, used_seq = (SELECT max(used_seq) + 1 FROM sessions)
WHERE key = :key;

-- touch_generation: Note that the session of a generation was used now.
UPDATE sessions
SET updated_at = :now, used_seq = (SELECT max(used_seq) + 1 FROM sessions)
WHERE key = (SELECT session_key FROM generations WHERE session_id = :session_id);
