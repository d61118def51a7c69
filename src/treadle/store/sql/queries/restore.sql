-- all_bindings: List the generations that are bound to a thread.
SELECT session_id FROM bindings WHERE thread_id IS NOT NULL ORDER BY session_id;

-- move_binding: Replace the document of a binding, whose thread stays.
UPDATE bindings SET doc = :doc WHERE session_id = :session_id;

-- unfinished_runs: List the messages without an end, each with the session that they are of.
SELECT i.run_id, s.session_id
FROM inbox i LEFT JOIN sessions s ON s.key = i.session_key
WHERE i.state IN ('accepted', 'running') ORDER BY i.seq;

-- lose_messages: Note of all messages without an end that theirs is unknown.
UPDATE inbox SET state = 'unknown', changed_at = :now, outcome = :outcome
WHERE state IN ('accepted', 'running');

-- count_open_deliveries: Count the deliveries that were not made for certain.
SELECT count(*) FROM deliveries WHERE state IN ('ready', 'sending');

-- lose_deliveries: Note of all open deliveries that nobody knows whether they were made.
UPDATE deliveries SET state = 'unknown', changed_at = :now, reason = :reason
WHERE state IN ('ready', 'sending');

-- end_claims: Take the right to write from everybody.
UPDATE claims SET lease_epoch = lease_epoch + 1, run_id = NULL WHERE run_id IS NOT NULL;

-- begin_late_epochs: Begin an epoch of every stream that no earlier one can have reached.
UPDATE streams SET epoch = max(epoch + 1, :floor);
