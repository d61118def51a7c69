-- stream_head: Read where a stream stands.
SELECT epoch, head FROM streams WHERE stream = :stream;

-- advance_stream: Write down the newest number of a stream, which may be new.
INSERT INTO streams (stream, epoch, head) VALUES (:stream, 1, :head)
ON CONFLICT (stream) DO UPDATE SET head = excluded.head;

-- renew_stream: Begin a new epoch of a stream, which may be new.
INSERT INTO streams (stream, epoch, head) VALUES (:stream, 2, 0)
ON CONFLICT (stream) DO UPDATE SET epoch = epoch + 1;

-- renew_streams: Begin a new epoch of every stream.
UPDATE streams SET epoch = epoch + 1;

-- add_event: Store an event under its number.
INSERT INTO stream_events (stream, seq, epoch, type, run_id, turn_id, entry_id, at, data)
VALUES (:stream, :seq, :epoch, :type, :run_id, :turn_id, :entry_id, :at, :data);

-- forget_events: Drop the events of a stream up to a number.
DELETE FROM stream_events WHERE stream = :stream AND seq <= :seq;

-- events_after: Read the events of a stream behind a number, each with its entry if it has one.
SELECT e.id, e.session_id, e.depth, e.position, e.parent, e.kind, e.key, e.role, e.host_only,
  e.content_hash, e.thread_id, e.turn_id, e.run_id, e.created_at, e.meta, e.content, NULL,
  v.seq, v.epoch, v.type, v.run_id, v.turn_id, v.at, v.data
FROM stream_events v LEFT JOIN entries e ON e.id = v.entry_id
WHERE v.stream = :stream AND v.seq > :after
ORDER BY v.seq
LIMIT :limit;

-- session_key_of: Find the session that a generation belongs to.
SELECT session_key FROM generations WHERE session_id = :session_id;
