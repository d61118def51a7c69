-- binding_of: Read a generation's binding; thread and document are NULL once it was cleared.
SELECT revision, thread_id, doc FROM bindings WHERE session_id = :session_id;

-- put_binding: Store a binding with its new revision.
INSERT INTO bindings (session_id, revision, thread_id, doc)
VALUES (:session_id, :revision, :thread_id, :doc)
ON CONFLICT (session_id) DO UPDATE SET
  revision = excluded.revision, thread_id = excluded.thread_id, doc = excluded.doc;

-- supersede_thread: Note that a generation gave a thread up, as the last one.
INSERT INTO superseded_threads (session_id, thread_id, given_up_at)
VALUES (:session_id, :thread_id, :now);

-- forget_superseded: Take a thread off the list of those given up, since it is used or given up anew.
DELETE FROM superseded_threads WHERE session_id = :session_id AND thread_id = :thread_id;

-- superseded_threads: List the threads that a generation's session gave up, or a deleted session of
-- its agent, oldest first.
SELECT t.thread_id, t.given_up_at
FROM generations own
JOIN sessions o ON o.key = own.session_key
JOIN sessions s ON s.key = o.key OR (s.deleted_key IS NOT NULL AND s.agent_id = o.agent_id)
JOIN generations g ON g.session_key = s.key
JOIN superseded_threads t ON t.session_id = g.session_id
WHERE own.session_id = :session_id
ORDER BY t.seq;

-- forget_thread: Take a thread off the list of those given up, whoever gave it up.
DELETE FROM superseded_threads WHERE thread_id = :thread_id;

-- last_held: Read count and chain of what a thread holds.
SELECT ordinal, chain FROM thread_held
WHERE thread_id = :thread_id ORDER BY ordinal DESC LIMIT 1;

-- holds_entry: Find out whether a thread holds an entry.
SELECT 1 FROM thread_held WHERE thread_id = :thread_id AND entry_id = :entry_id;

-- add_held: Note one more message that a thread holds.
INSERT INTO thread_held (thread_id, ordinal, entry_id, content_hash, chain)
VALUES (:thread_id, :ordinal, :entry_id, :content_hash, :chain);

-- held_by: List what a thread holds, in order.
SELECT content_hash, entry_id FROM thread_held WHERE thread_id = :thread_id ORDER BY ordinal;

-- add_injection: Store an intent to inject.
INSERT INTO injections (id, session_id, thread_id, purpose, state, changed_at, item_ids, held)
VALUES (:id, :session_id, :thread_id, :purpose, 'intended', :now, :item_ids, :held);

-- injection_by_id: Read an injection and the generation that it belongs to.
SELECT id, thread_id, purpose, item_ids, held, state, session_id FROM injections WHERE id = :id;

-- settle_injection: Write down how an injection ended.
UPDATE injections SET state = :state, changed_at = :now WHERE id = :id;

-- pending_injections: List a thread's intents whose outcome is not known, oldest first.
SELECT id, thread_id, purpose, item_ids, held, state, session_id FROM injections
WHERE thread_id = :thread_id AND state = 'intended' ORDER BY seq;
