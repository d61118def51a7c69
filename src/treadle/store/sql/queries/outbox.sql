-- turn_of_run: Read the row of a run.
SELECT o.seq, g.session_key, o.session_id, o.run_id, o.engine_id, o.advancement_key, o.state,
  o.commits, o.is_heartbeat, o.first_entry, o.last_entry, o.payload_hash, o.attempts, o.changed_at,
  o.reason, o.first_hash
FROM engine_outbox o JOIN generations g ON g.session_id = o.session_id
WHERE o.session_id = :session_id AND o.run_id = :run_id;

-- turn_of_key: Read the row of an advancement key.
SELECT o.seq, g.session_key, o.session_id, o.run_id, o.engine_id, o.advancement_key, o.state,
  o.commits, o.is_heartbeat, o.first_entry, o.last_entry, o.payload_hash, o.attempts, o.changed_at,
  o.reason, o.first_hash
FROM engine_outbox o JOIN generations g ON g.session_id = o.session_id
WHERE o.advancement_key = :key;

-- pending_turns: List what waits for an engine in all generations of a session, oldest first.
SELECT o.seq, g.session_key, o.session_id, o.run_id, o.engine_id, o.advancement_key, o.state,
  o.commits, o.is_heartbeat, o.first_entry, o.last_entry, o.payload_hash, o.attempts, o.changed_at,
  o.reason, o.first_hash
FROM generations g JOIN engine_outbox o ON o.session_id = g.session_id
WHERE g.session_key = :session_key AND o.engine_id = :engine_id AND o.state = 'ready'
ORDER BY o.seq
LIMIT :limit;

-- troubled_turns: List the newest turns that wait or never go out.
SELECT o.seq, g.session_key, o.session_id, o.run_id, o.engine_id, o.advancement_key, o.state,
  o.commits, o.is_heartbeat, o.first_entry, o.last_entry, o.payload_hash, o.attempts, o.changed_at,
  o.reason, o.first_hash
FROM engine_outbox o JOIN generations g ON g.session_id = o.session_id
WHERE o.state IN ('ready', 'blocked')
ORDER BY o.seq DESC
LIMIT :limit;

-- count_troubled_turns: Count the turns that wait, and those that never go out.
SELECT count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'blocked')
FROM engine_outbox WHERE state IN ('ready', 'blocked');

-- add_turn: Store a turn that begins under an engine.
INSERT INTO engine_outbox (session_id, run_id, engine_id, advancement_key, state, commits,
  is_heartbeat, first_entry, first_hash, attempts, changed_at)
VALUES (:session_id, :run_id, :engine_id, :key, 'admitted', :commits, :is_heartbeat, :first_entry,
  :first_hash, 0, :now);

-- drop_turn: Forget a turn that was admitted and came to nothing.
DELETE FROM engine_outbox
WHERE session_id = :session_id AND run_id = :run_id AND state = 'admitted';

-- drop_other_turns: Forget what earlier runs of a generation left admitted; nobody goes on with it.
DELETE FROM engine_outbox
WHERE session_id = :session_id AND run_id <> :run_id AND state = 'admitted';

-- accept_turn: Write down the range of a turn that ended well, and where that leads it.
UPDATE engine_outbox SET state = :state, last_entry = :last_entry, payload_hash = :payload_hash,
  reason = :reason, changed_at = :now
WHERE seq = :seq;

-- move_turn: Write down the next state of a turn that stands in the given one.
UPDATE engine_outbox SET state = :state, attempts = :attempts, reason = :reason, changed_at = :now
WHERE seq = :seq AND state = :before;

-- state_of_turn: Read how far a turn got, and how often it was tried.
SELECT state, attempts FROM engine_outbox WHERE seq = :seq;

-- settle_interrupted_turns: Settle what an earlier process left half handed over.
UPDATE engine_outbox SET state = 'settled', reason = :reason, changed_at = :now
WHERE state = 'accepted';

-- count_interrupted_turns: Count what an earlier process left half handed over.
SELECT count(*) FROM engine_outbox WHERE state = 'accepted';

-- place_of_entry: Find where an entry stands, with its content hash as it was stored.
SELECT session_id, branch, position, content_hash FROM entries WHERE id = :id;

-- next_turn_begins: Find out whether a message of another run stands behind a position.
SELECT 1 FROM entries
WHERE branch = :branch AND position > :position AND run_id IS NOT :run_id LIMIT 1;

-- range_measures: Read what names and measures the messages of a range, in order.
SELECT id, content_hash, length(CAST(content AS BLOB)) FROM entries
WHERE branch = :branch AND position >= :start AND position <= :stop ORDER BY position;

-- range_messages: Read the messages of a range, in order.
SELECT id, role, created_at, content FROM entries
WHERE branch = :branch AND position >= :start AND position <= :stop ORDER BY position;
