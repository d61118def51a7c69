-- 0002: messages accepted and not yet run, engine commits, deliveries, child processes, event streams.

-- The durable inbox (S1). A row is the acknowledgement: it is never deleted but by a purge.
CREATE TABLE inbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of acceptance, never given twice
  session_key TEXT NOT NULL,
  client_message_id TEXT NOT NULL,        -- the sender's; the same id again is the same message
  run_id TEXT NOT NULL UNIQUE,
  session_id TEXT,                        -- the generation that ran it; NULL until it is claimed
  state TEXT NOT NULL CHECK (
    state IN ('accepted', 'running', 'answered', 'failed', 'cancelled', 'unknown')
  ),
  attempts INTEGER NOT NULL,
  accepted_at REAL NOT NULL,
  changed_at REAL NOT NULL,
  request_hash TEXT NOT NULL,
  request TEXT NOT NULL,                  -- JSON object: the message and how it is to be run
  outcome TEXT,                           -- JSON object once final: what the sender is told
  UNIQUE (session_key, client_message_id)
) STRICT;
CREATE INDEX inbox_open ON inbox (session_key, seq) WHERE state IN ('accepted', 'running');

-- Turns on their way to a context engine (S5, S10, S11; contract B-37, B-38, B-48).
CREATE TABLE engine_outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of the commits
  session_id TEXT NOT NULL REFERENCES generations (session_id),
  run_id TEXT NOT NULL,
  engine_id TEXT NOT NULL,
  advancement_key TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK (
    state IN ('admitted', 'accepted', 'ready', 'blocked', 'committed', 'settled')
  ),
  commits INTEGER NOT NULL,               -- whether the engine commits durably
  is_heartbeat INTEGER NOT NULL,
  first_entry TEXT NOT NULL,              -- of the turn: the user's entry
  first_hash TEXT NOT NULL,               -- its content hash when the turn was admitted
  last_entry TEXT,                        -- of the turn, once it is accepted
  payload_hash TEXT,                      -- of what a commit sends, once it is accepted
  attempts INTEGER NOT NULL,
  changed_at REAL NOT NULL,
  reason TEXT,                            -- of the last failure
  UNIQUE (session_id, run_id)
) STRICT;
CREATE INDEX engine_outbox_open ON engine_outbox (state, session_id, seq)
  WHERE state IN ('admitted', 'accepted', 'ready', 'blocked');

-- Replies on their way to a channel (S12; INV-15).
CREATE TABLE deliveries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  session_key TEXT NOT NULL,
  run_id TEXT NOT NULL,
  entry_id TEXT,                          -- the reply; NULL for a notice
  channel TEXT NOT NULL,
  destination TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('ready', 'sending', 'done', 'failed', 'unknown')),
  attempts INTEGER NOT NULL,
  created_at REAL NOT NULL,
  changed_at REAL NOT NULL,
  reason TEXT,
  payload TEXT NOT NULL,                  -- JSON object
  UNIQUE (run_id, channel, destination, entry_id)
) STRICT;
CREATE INDEX deliveries_open ON deliveries (channel, seq) WHERE state IN ('ready', 'sending');

-- Child processes of ours, each registered before it is spoken to (S-11, INV-19).
CREATE TABLE children (
  id TEXT PRIMARY KEY,                    -- the marker in its environment and its commands'
  boot_id TEXT NOT NULL,
  parent_pid INTEGER NOT NULL,
  parent_start_ticks INTEGER NOT NULL,
  pid INTEGER,                            -- NULL until it was started
  start_ticks INTEGER,
  process_group INTEGER,
  command_digest TEXT NOT NULL,
  home TEXT NOT NULL,
  registered_at REAL NOT NULL,
  closed_at REAL,
  closed_because TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX children_open ON children (registered_at) WHERE closed_at IS NULL;

-- Durable events: gap-free numbers per stream, written in the transaction of the fact. Only the
-- newest are kept: as many as a client can catch up with.
CREATE TABLE streams (
  stream TEXT PRIMARY KEY,                -- a session key, or `global`
  epoch INTEGER NOT NULL,                 -- another one: what a client has seen is no prefix any more
  head INTEGER NOT NULL                   -- seq of the last event; goes on through epochs
) STRICT, WITHOUT ROWID;
CREATE TABLE stream_events (
  stream TEXT NOT NULL REFERENCES streams (stream),
  seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  type TEXT NOT NULL,
  run_id TEXT,
  turn_id TEXT,
  entry_id TEXT,                          -- of `entry.committed`, whose data is the entry itself
  at REAL NOT NULL,
  data TEXT NOT NULL,                     -- JSON object
  PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;

-- How a generation began. Whence a rewound or branched one comes, the parent of its branch tells.
ALTER TABLE generations ADD COLUMN origin TEXT NOT NULL DEFAULT 'new' CHECK (
  origin IN ('new', 'reset', 'rewind', 'branch', 'import')
);
UPDATE generations SET origin = 'reset' WHERE generation > 1;

-- A deleted session keeps its transcript, under a key that nobody can name, until it is purged.
ALTER TABLE sessions ADD COLUMN deleted_key TEXT;  -- the key that it had; NULL while it lives
ALTER TABLE sessions ADD COLUMN deleted_at REAL;
CREATE INDEX sessions_deleted ON sessions (deleted_key) WHERE deleted_key IS NOT NULL;
CREATE INDEX branches_by_parent ON branches (parent) WHERE parent IS NOT NULL;

-- Child sessions: whose they are, and whether the engine that prepared one knows that it is over.
CREATE TABLE child_sessions (
  session_key TEXT PRIMARY KEY,           -- its session has this key once the child has begun
  parent_key TEXT NOT NULL,
  context_mode TEXT NOT NULL CHECK (context_mode IN ('isolated', 'fork')),
  engine_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('preparing', 'live', 'ending', 'ended')),
  reason TEXT CHECK (reason IN ('deleted', 'completed', 'swept', 'released')),
  expires_at REAL,                        -- Unix seconds; NULL: it lives until somebody ends it
  changed_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX child_sessions_open ON child_sessions (parent_key) WHERE state <> 'ended';
