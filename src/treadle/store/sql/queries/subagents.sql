-- add_child: Note that a child session is being prepared.
INSERT INTO child_sessions (session_key, parent_key, context_mode, engine_id, state, expires_at,
  changed_at)
VALUES (:key, :parent_key, :context_mode, :engine_id, 'preparing', :expires_at, :now);

-- child_by_key: Read a child session.
SELECT session_key, parent_key, context_mode, engine_id, expires_at, state, reason
FROM child_sessions WHERE session_key = :key;

-- live_children: List the live children of a session.
SELECT session_key, parent_key, context_mode, engine_id, expires_at, state, reason
FROM child_sessions WHERE parent_key = :parent_key AND state = 'live' ORDER BY session_key;

-- ending_children: List the children whose engine is not known to know that they are over.
SELECT session_key, parent_key, context_mode, engine_id, expires_at, state, reason
FROM child_sessions WHERE state = 'ending' ORDER BY session_key;

-- child_is_live: Note that a child has begun.
UPDATE child_sessions SET state = 'live', changed_at = :now WHERE session_key = :key;

-- child_is_over: Note why a live child is over.
UPDATE child_sessions SET state = 'ending', reason = :reason, changed_at = :now
WHERE session_key = :key AND state = 'live';

-- children_are_over: Note that all live children of a session are over.
UPDATE child_sessions SET state = 'ending', reason = :reason, changed_at = :now
WHERE parent_key = :parent_key AND state = 'live';

-- sweep_children: End the children that never began or outlived their time.
UPDATE child_sessions SET state = 'ending', reason = 'swept', changed_at = :now
WHERE state = 'preparing' OR (state = 'live' AND expires_at <= :now);

-- child_was_told: Note that a child's engine knows that it is over.
UPDATE child_sessions SET state = 'ended', changed_at = :now
WHERE session_key = :key AND state = 'ending';

-- drop_child: Forget a child that did not begin.
DELETE FROM child_sessions WHERE session_key = :key;

-- untitle_session: Take the title from a session.
UPDATE sessions SET title = '' WHERE key = :key;

-- any_to_sweep: Find out whether a child never began or outlived its time.
SELECT 1 FROM child_sessions
WHERE state = 'preparing' OR (state = 'live' AND expires_at <= :now) LIMIT 1;

-- sweep_child: End a child of which nobody knows whether something was prepared.
UPDATE child_sessions SET state = 'ending', reason = 'swept', changed_at = :now
WHERE session_key = :key AND state = 'preparing';
