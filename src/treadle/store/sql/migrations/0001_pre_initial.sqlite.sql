-- 0001: sessions, transcripts as trees of entries, threads and what they hold, reports, search.

CREATE TABLE migrations (
  number INTEGER PRIMARY KEY,
  phase TEXT NOT NULL CHECK (phase IN ('pre', 'post')),
  name TEXT NOT NULL,
  applied_at REAL NOT NULL
) STRICT;

CREATE TABLE sessions (
  key TEXT PRIMARY KEY,
  session_id TEXT NOT NULL UNIQUE,      -- the current generation
  generation INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  cwd TEXT,
  title TEXT NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  used_seq INTEGER NOT NULL,            -- order of use; clocks may go back, this does not
  settings TEXT NOT NULL                -- JSON object
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_use ON sessions (used_seq);

CREATE TABLE generations (
  session_id TEXT PRIMARY KEY,
  session_key TEXT NOT NULL REFERENCES sessions (key),
  generation INTEGER NOT NULL,
  branch INTEGER NOT NULL,              -- the active branch
  created_at REAL NOT NULL,
  UNIQUE (session_key, generation)
) STRICT, WITHOUT ROWID;

-- A branch holds the entries from its fork on; the path to its root holds the rest. The counts are
-- those of the whole path: the next depth and the next position.
CREATE TABLE branches (
  branch INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES generations (session_id),
  parent INTEGER REFERENCES branches (branch),
  fork_depth INTEGER NOT NULL,
  fork_position INTEGER NOT NULL,
  entry_count INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  head TEXT,                            -- id of the last entry of the path
  created_at REAL NOT NULL
) STRICT;
CREATE INDEX branches_by_session ON branches (session_id);

-- The large columns stand last, so that reading the others does not follow overflow pages.
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES generations (session_id),
  branch INTEGER NOT NULL REFERENCES branches (branch),
  depth INTEGER NOT NULL,
  position INTEGER,                     -- NULL unless engines see it
  parent TEXT,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  role TEXT NOT NULL,
  host_only INTEGER NOT NULL,
  content_hash TEXT NOT NULL,
  thread_id TEXT,
  turn_id TEXT,
  run_id TEXT,
  created_at REAL NOT NULL,
  meta TEXT NOT NULL,                   -- JSON object
  content TEXT NOT NULL,                -- JSON value
  raw_items TEXT,                       -- JSON array
  UNIQUE (branch, depth),
  UNIQUE (session_id, key)
) STRICT;
CREATE UNIQUE INDEX entries_by_position ON entries (branch, position) WHERE position IS NOT NULL;
CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
BEGIN
  SELECT RAISE(ABORT, 'an entry of the transcript never changes');
END;

CREATE TABLE claims (
  session_id TEXT PRIMARY KEY REFERENCES generations (session_id),
  lease_epoch INTEGER NOT NULL,
  run_id TEXT,                          -- NULL once given back
  taken_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- A cleared binding leaves its row with its revision, so that no revision is ever given twice.
CREATE TABLE bindings (
  session_id TEXT PRIMARY KEY REFERENCES generations (session_id),
  revision INTEGER NOT NULL,
  thread_id TEXT,
  doc TEXT                              -- JSON object; NULL once cleared
) STRICT, WITHOUT ROWID;
CREATE INDEX bindings_by_thread ON bindings (thread_id) WHERE thread_id IS NOT NULL;

CREATE TABLE superseded_threads (
  seq INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES generations (session_id),
  thread_id TEXT NOT NULL,
  given_up_at REAL NOT NULL,
  UNIQUE (session_id, thread_id)
) STRICT;

CREATE TABLE thread_held (
  thread_id TEXT NOT NULL,
  ordinal INTEGER NOT NULL,             -- from 1: the count after this one
  entry_id TEXT,
  content_hash TEXT NOT NULL,
  chain TEXT NOT NULL,                  -- over this one and all before it
  PRIMARY KEY (thread_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_held_by_entry ON thread_held (thread_id, entry_id) WHERE entry_id IS NOT NULL;

CREATE TABLE injections (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES generations (session_id),
  thread_id TEXT NOT NULL,
  purpose TEXT NOT NULL,
  state TEXT NOT NULL,
  changed_at REAL NOT NULL,
  item_ids TEXT NOT NULL,               -- JSON array of strings
  held TEXT NOT NULL                    -- JSON array of [content_hash, entry_id or null]
) STRICT;
CREATE INDEX injections_pending ON injections (thread_id, seq) WHERE state = 'intended';

CREATE TABLE context_reports (
  session_id TEXT NOT NULL REFERENCES generations (session_id),
  number INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  created_at REAL NOT NULL,
  report TEXT NOT NULL,                 -- JSON object
  PRIMARY KEY (session_id, number),
  UNIQUE (session_id, run_id)
) STRICT;

-- The index over words; its row id is entries.seq. It keeps no text of its own: `store.search` makes
-- what is indexed (folded, unsegmented scripts parted into characters) from the entry, and can again.
CREATE VIRTUAL TABLE entry_words USING fts5 (
  body,
  content = '',
  tokenize = "unicode61 remove_diacritics 0 categories 'L* N* Co M*'"
);
