-- add_message: Accept a message, unless its sender's id is known in the session.
INSERT INTO inbox (
  session_key, client_message_id, run_id, state, attempts, accepted_at, changed_at, request_hash,
  request
)
VALUES (
  :session_key, :client_message_id, :run_id, 'accepted', 0, :now, :now, :request_hash, :request
)
ON CONFLICT (session_key, client_message_id) DO NOTHING;

-- message_by_client_id: Read the message that a sender gave this id.
SELECT
  seq, session_key, client_message_id, run_id, session_id, state, attempts, accepted_at,
  request_hash, request, outcome
FROM inbox WHERE session_key = :session_key AND client_message_id = :client_message_id;

-- message_of_run: Read the state of a run's message.
SELECT state, session_key, client_message_id FROM inbox WHERE run_id = :run_id;

-- unfinished_messages: List the messages without an end, in order of acceptance.
SELECT
  seq, session_key, client_message_id, run_id, session_id, state, attempts, accepted_at,
  request_hash, request, outcome
FROM inbox WHERE state IN ('accepted', 'running') ORDER BY seq;

-- unfinished_messages_of: List the messages of a session without an end, in order of acceptance.
SELECT
  seq, session_key, client_message_id, run_id, session_id, state, attempts, accepted_at,
  request_hash, request, outcome
FROM inbox WHERE session_key = :session_key AND state IN ('accepted', 'running') ORDER BY seq;

-- start_message: Note that the run of a message begins.
UPDATE inbox SET
  state = 'running', attempts = attempts + 1, session_id = :session_id, changed_at = :now
WHERE run_id = :run_id AND state IN ('accepted', 'running');

-- requeue_message: Let a message wait again.
UPDATE inbox SET state = 'accepted', changed_at = :now
WHERE run_id = :run_id AND state = 'running';

-- settle_message: Write the end of a message.
UPDATE inbox SET state = :state, outcome = :outcome, changed_at = :now WHERE run_id = :run_id;
