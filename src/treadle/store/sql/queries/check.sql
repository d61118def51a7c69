-- count_rows: Count sessions, generations, entries and messages.
SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM generations),
  (SELECT count(*) FROM entries), (SELECT count(*) FROM entries WHERE position IS NOT NULL);

-- broken_references: List rows that refer to rows that are not there.
SELECT "table", rowid, parent FROM pragma_foreign_key_check LIMIT 20;

-- branches_with_gaps: List branches whose entries do not stand one behind the other as counted.
SELECT b.branch, b.session_id FROM branches b
LEFT JOIN (
  SELECT branch, count(*) AS entries, min(depth) AS first_depth, max(depth) AS last_depth,
    count(position) AS messages, min(position) AS first_position, max(position) AS last_position
  FROM entries GROUP BY branch
) e ON e.branch = b.branch
WHERE b.entry_count - b.fork_depth <> coalesce(e.entries, 0)
  OR b.message_count - b.fork_position <> coalesce(e.messages, 0)
  OR e.first_depth <> b.fork_depth OR e.last_depth <> b.entry_count - 1
  OR e.first_position <> b.fork_position OR e.last_position <> b.message_count - 1
LIMIT 20;

-- all_contents: Read role, content and hash of every entry.
SELECT id, role, content, content_hash FROM entries ORDER BY seq;

-- all_held: Read what every thread holds, in order.
SELECT thread_id, ordinal, content_hash, chain FROM thread_held ORDER BY thread_id, ordinal;

-- entries_without_words: Count entries that the index over words lacks.
SELECT count(*) FROM entries WHERE seq NOT IN (SELECT id FROM entry_words_docsize);

-- tables_with_pages: List the tables that have pages of their own.
SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name;
