-- Strings that stand in many rows of the queue (destinations, sources, endpoints, runs) are kept once.
-- AUTOINCREMENT, because rows may outlive the name of a run, and must not get that of another.
CREATE TABLE name (id INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE) STRICT;

-- Under 'clock' what processes that deliver say of the time with each heartbeat (clock.ts).
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- One message for one destination, until it is delivered or dead.
-- state: 0 ready, 1 claimed, 2 waiting for an older change of the same conflict key that is in flight.
-- AUTOINCREMENT, because the id is part of the Idempotency-Key and must never come again.
CREATE TABLE delivery (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  destination INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  state INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  owner INTEGER,
  source INTEGER NOT NULL,
  type INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  user_id TEXT,
  accepted_at INTEGER NOT NULL,
  first_at INTEGER,
  run INTEGER,
  conflict TEXT,
  marks TEXT,
  -- Abnormal ends of processes that held it, and whether its post was recorded before it began (Store.rescue, Store.begin).
  crashes INTEGER NOT NULL DEFAULT 0,
  begun INTEGER NOT NULL DEFAULT 0,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX delivery_ready ON delivery (destination, tries > 0, lane, due_at) WHERE state = 0;
CREATE INDEX delivery_claimed ON delivery (owner) WHERE state = 1;
CREATE INDEX delivery_conflict ON delivery (conflict, destination) WHERE conflict IS NOT NULL;

CREATE TABLE dead_letter (
  id INTEGER PRIMARY KEY,
  destination INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  source INTEGER NOT NULL,
  type INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  user_id TEXT,
  run INTEGER,
  conflict TEXT,
  reason TEXT NOT NULL,
  status INTEGER,
  tries INTEGER NOT NULL,
  accepted_at INTEGER NOT NULL,
  first_at INTEGER,
  last_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  marks TEXT,
  -- Endpoints that took it, where all have to: it is not sent there again.
  taken TEXT
) STRICT;
-- Refused by an endpoint that may refuse everything, with what became of the other endpoints: such letters may be sent again.
CREATE INDEX dead_letter_denied ON dead_letter (destination, accepted_at) WHERE marks IS NOT NULL;
CREATE INDEX dead_letter_conflict ON dead_letter (conflict, destination) WHERE conflict IS NOT NULL;
-- Held out of a full queue, in the order in which they are queued again.
CREATE INDEX dead_letter_held_out ON dead_letter (destination, accepted_at) WHERE reason = 'queue_full';

-- What was delivered, for as long as messages.keep says, in the order of time; notices of deletions never.
CREATE TABLE delivered (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  delivery INTEGER NOT NULL,
  destination INTEGER NOT NULL,
  source INTEGER NOT NULL,
  type INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  user_id TEXT,
  accepted_at INTEGER NOT NULL,
  conflict TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX delivered_delivery ON delivered (delivery);
CREATE INDEX delivered_message ON delivered (message_id);
CREATE INDEX delivered_user ON delivered (user_id) WHERE user_id IS NOT NULL;
-- The bytes of parts of it, each from behind one id to another (kept-messages.ts).
CREATE TABLE delivered_part (begin_id INTEGER PRIMARY KEY, last_id INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;

-- Counters, so that nothing ever counts the rows above. queued: pending, never tried, no deletion notice; held_out: dead
-- letters `queue_full`.
CREATE TABLE backlog (
  destination INTEGER PRIMARY KEY,
  pending INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  queued INTEGER NOT NULL,
  held_out INTEGER NOT NULL
) STRICT;

-- Message ids of the last 24 hours (see seen.ts), 16 bytes each: the newest in rows, one of each group of accepts, the others
-- in buckets, whose ids lie in parts by their hash. AUTOINCREMENT, because other processes notice by the ids what is new to them.
CREATE TABLE seen_log (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, keys BLOB NOT NULL) STRICT;
CREATE TABLE seen_bucket (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, filter BLOB NOT NULL) STRICT;
CREATE TABLE seen (id INTEGER PRIMARY KEY, keys BLOB NOT NULL) STRICT;

-- The event log (docs/event-log.md). Its hot tail: one row for each accept and source, with a body of JSON on each line, until
-- it is sealed into files. AUTOINCREMENT, because readers know by the ids how far they are.
CREATE TABLE event_tail (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  -- By the wall clock, as the times of receipt are; some minutes later than those at most.
  wall INTEGER NOT NULL,
  source INTEGER NOT NULL,
  events INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  bodies TEXT NOT NULL
) STRICT;
CREATE INDEX event_tail_wall ON event_tail (wall);
-- The files that are the rest of the log. `name` is a path within the log's folder.
CREATE TABLE event_file (
  name TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  day TEXT NOT NULL,
  events INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX event_file_day ON event_file (day);
-- Parts that were sealed before the live computation had read them.
CREATE TABLE event_unread (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, bodies TEXT NOT NULL) STRICT;
-- Files about to be written, and those that are no longer part of the log: what is here may be removed from the disk.
CREATE TABLE event_leftover (name TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;
-- Rises whenever events move between the tables above.
INSERT INTO meta VALUES ('event_log_version', '0');

-- Append-only; searched by scanning back from the newest unless by user, pruned from the oldest.
CREATE TABLE attempt (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  delivery INTEGER NOT NULL,
  destination INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,
  source INTEGER NOT NULL,
  type INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  user_id TEXT,
  outcome INTEGER NOT NULL,
  status INTEGER,
  ms INTEGER NOT NULL,
  error TEXT,
  response TEXT
) STRICT;
-- In parts by age, so that new rows change few pages; src/store/records/attempts.ts looks into each.
CREATE INDEX attempt_user ON attempt (id / 2048, user_id) WHERE user_id IS NOT NULL;

-- Samples of what collection did not take; the newest of each source are kept.
CREATE TABLE discard (
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  code TEXT NOT NULL,
  at INTEGER NOT NULL,
  message TEXT NOT NULL
) STRICT;
CREATE INDEX discard_source ON discard (source);

-- What came to pass, by minute, hour and day (history.ts): sums to which every process adds what it has counted. No users are
-- named in it. subject, step: places in the lists there. at: the beginning of the step by the wall clock.
CREATE TABLE rollup (
  subject INTEGER NOT NULL,
  name TEXT NOT NULL,
  step INTEGER NOT NULL,
  at INTEGER NOT NULL,
  accepted INTEGER NOT NULL, delivered INTEGER NOT NULL, retried INTEGER NOT NULL, dead INTEGER NOT NULL,
  duplicates INTEGER NOT NULL, suppressed INTEGER NOT NULL, discarded INTEGER NOT NULL, entered INTEGER NOT NULL,
  exited INTEGER NOT NULL, runs INTEGER NOT NULL, failed INTEGER NOT NULL,
  -- How many took how long.
  took_0 INTEGER NOT NULL, took_1 INTEGER NOT NULL, took_2 INTEGER NOT NULL, took_3 INTEGER NOT NULL, took_4 INTEGER NOT NULL,
  took_5 INTEGER NOT NULL, took_6 INTEGER NOT NULL, took_7 INTEGER NOT NULL, took_8 INTEGER NOT NULL, took_9 INTEGER NOT NULL,
  took_10 INTEGER NOT NULL, took_11 INTEGER NOT NULL, took_12 INTEGER NOT NULL,
  -- The highest backlog and age of the step; the last size of an audience.
  pending INTEGER,
  oldest INTEGER,
  members INTEGER,
  PRIMARY KEY (subject, name, step, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollup_age ON rollup (step, at);

-- Who did what. No users are named in it.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT,
  -- What became of it: done, or the code of an error; null until that is known.
  outcome TEXT
) STRICT;

-- Sign-in links that were used and sessions that were ended, by hash, until they would have ended. `ends_at` is of the wall clock.
CREATE TABLE spent_pass (hash TEXT PRIMARY KEY, ends_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- What people are told needs them: a row for each time that a condition held. is_over: 1 once nothing is left to say of it.
CREATE TABLE alert (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  opened_at INTEGER,
  gone_at INTEGER,
  closed_at INTEGER,
  -- When people were to be told of its beginning, and of its end.
  opening_at INTEGER,
  closing_at INTEGER,
  is_over INTEGER NOT NULL,
  record TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX alert_open ON alert (kind, subject) WHERE closed_at IS NULL;
CREATE INDEX alert_current ON alert (seq) WHERE is_over = 0;
CREATE INDEX alert_closed ON alert (closed_at) WHERE closed_at IS NOT NULL;

CREATE TABLE endpoint (
  endpoint TEXT PRIMARY KEY,
  destination TEXT NOT NULL,
  paused_at INTEGER,
  dead_since INTEGER,
  -- What its last request failed with when it died: status_500, ECONNREFUSED, …
  dead_cause TEXT,
  -- The beginning of that answer.
  dead_answer TEXT,
  -- It refuses everything: since when; what it refused from when on is to be sent again; when it took one again.
  refusing_since INTEGER,
  refused_from INTEGER,
  taken_at INTEGER
) STRICT, WITHOUT ROWID;

-- Processes that deliver. A holder is a process as holder.ts describes it: one that has exited has lost its lease at once.
CREATE TABLE owner (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  lease_until INTEGER NOT NULL,
  holder TEXT NOT NULL,
  roster TEXT
) STRICT;

-- What processes know of destinations: one row for all that know the same.
CREATE TABLE roster (id TEXT PRIMARY KEY, written_at INTEGER NOT NULL, record TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- Destinations with pending deliveries that no live process knows, and for how many milliseconds processes were alive
-- meanwhile. A process that publishes a destination deletes its row.
CREATE TABLE orphan (
  destination TEXT PRIMARY KEY,
  since INTEGER NOT NULL,
  unknown_for INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE lease (
  name TEXT PRIMARY KEY,
  token INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  holder TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audience (key TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- Audiences that no schedule runs, since a person paused them.
CREATE TABLE audience_pause (key TEXT PRIMARY KEY, at INTEGER NOT NULL, who TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- The sequence that a forgotten audience had: one of the same key goes on above it.
CREATE TABLE last_sequence (key TEXT PRIMARY KEY, sequence INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- Configurations by their content, with the generation that each was given when it was last started anew; and the one that
-- last ran an audience, kept when the audience is forgotten.
CREATE TABLE configuration (hash TEXT PRIMARY KEY, generation INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE audience_generation (
  key TEXT PRIMARY KEY,
  generation INTEGER NOT NULL,
  definition TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('generation', '0');

-- seq: of runs that began in the same millisecond, which came first.
CREATE TABLE run (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  key TEXT NOT NULL,
  state TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  cursor TEXT,
  sent INTEGER NOT NULL,
  record TEXT NOT NULL
) STRICT;
CREATE INDEX run_started ON run (started_at);
CREATE INDEX run_key ON run (key, seq);
CREATE INDEX run_open ON run (key, state) WHERE state IN ('staged', 'held', 'sending', 'committed');
-- Postgres keeps it in parts; here there is one.
CREATE TABLE run_progress (
  run TEXT NOT NULL,
  part INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  untried INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  superseded INTEGER NOT NULL,
  PRIMARY KEY (run, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE regulation (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX regulation_created ON regulation (created_at, id);
CREATE INDEX regulation_open ON regulation (created_at) WHERE status IN ('INITIALIZED', 'RUNNING');
CREATE INDEX regulation_over ON regulation (created_at) WHERE status NOT IN ('INITIALIZED', 'RUNNING');

-- Which destinations took which notices of a request: `PLACE SOURCE`, as its user ids are numbered.
CREATE TABLE notice_confirmation (
  regulation TEXT NOT NULL,
  destination TEXT NOT NULL,
  notice TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (regulation, destination, notice)
) STRICT, WITHOUT ROWID;

-- HMAC of scope and user id under a key in meta; no id is kept. named: that of the user as whose former id it was suppressed, or the
-- same.
CREATE TABLE suppression (hash BLOB NOT NULL, named BLOB NOT NULL, PRIMARY KEY (hash, named)) STRICT, WITHOUT ROWID;

-- Users whose deletion was asked for, as such hashes: what was computed before must not come in after it (epoch, in meta).
-- is_open: 1 until the request is over. in_log: 1 until the event log is rid of them.
INSERT INTO meta VALUES ('deletion_epoch', '0');
CREATE TABLE deletion (
  hash BLOB NOT NULL,
  regulation TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  is_open INTEGER NOT NULL,
  in_log INTEGER NOT NULL,
  PRIMARY KEY (hash, regulation)
) STRICT, WITHOUT ROWID;
CREATE INDEX deletion_epoch ON deletion (epoch);
CREATE INDEX deletion_regulation ON deletion (regulation);
CREATE INDEX deletion_open ON deletion (epoch) WHERE is_open = 1;

-- Live audiences (docs/live.md). A source is computed by the state that serves it; another one may be built beside it for new
-- definitions. How far each is in the log; what it keeps of each id, as JSON, and of persons when something may become another
-- by time alone.
CREATE TABLE live_source (
  state INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  serving INTEGER NOT NULL,
  asked TEXT NOT NULL,
  position TEXT NOT NULL,
  at INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  building INTEGER NOT NULL,
  done INTEGER NOT NULL,
  total INTEGER NOT NULL,
  ids INTEGER NOT NULL,
  due INTEGER NOT NULL
) STRICT;
CREATE TABLE live_id (
  state INTEGER NOT NULL,
  raw TEXT NOT NULL,
  person TEXT,
  due INTEGER,
  oldest INTEGER,
  kept TEXT NOT NULL,
  links TEXT NOT NULL,
  PRIMARY KEY (state, raw)
) STRICT, WITHOUT ROWID;
CREATE INDEX live_id_person ON live_id (state, person);
CREATE INDEX live_id_due ON live_id (state, due) WHERE due IS NOT NULL;
CREATE INDEX live_id_oldest ON live_id (state, oldest) WHERE oldest IS NOT NULL;
-- Audiences by SQL that live ones name: the version whose members a state knows.
CREATE TABLE live_named (state INTEGER NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (state, key)) STRICT, WITHOUT ROWID;

-- hold: why nothing is told as it is computed. members: of what was told.
CREATE TABLE live_audience (
  key TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  definition TEXT NOT NULL,
  version INTEGER NOT NULL,
  members INTEGER NOT NULL,
  hold TEXT,
  judged_from INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- What is computed and what was told; null for who is not in it. Those who left stay, as others may have to be told so.
-- cause, changed_at: of what is yet to be told.
CREATE TABLE live_member (
  key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  current TEXT,
  told TEXT,
  since INTEGER NOT NULL,
  behind INTEGER NOT NULL,
  cause TEXT,
  changed_at INTEGER,
  PRIMARY KEY (key, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX live_member_user ON live_member (user_id);
CREATE INDEX live_member_behind ON live_member (key, user_id) WHERE behind = 1;
CREATE INDEX live_member_since ON live_member (key, since, user_id);
CREATE TABLE live_past (
  key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  value TEXT NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  ended_at INTEGER NOT NULL
) STRICT;
CREATE INDEX live_past_user ON live_past (user_id, key);
CREATE INDEX live_past_until ON live_past (key, until, user_id);
CREATE INDEX live_past_since ON live_past (key, since, user_id);
CREATE INDEX live_past_ended ON live_past (ended_at);
-- What was told of whom as it was computed, and which event made it.
CREATE TABLE live_cause (
  key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  at INTEGER NOT NULL,
  change TEXT NOT NULL,
  cause TEXT,
  changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX live_cause_user ON live_cause (user_id, key);
CREATE INDEX live_cause_at ON live_cause (key, at);
CREATE INDEX live_cause_time ON live_cause (at);
CREATE TABLE live_plan (plan TEXT PRIMARY KEY, key TEXT NOT NULL, to_version INTEGER NOT NULL, record TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX live_plan_key ON live_plan (key);
CREATE TABLE live_plan_row (
  plan TEXT NOT NULL,
  position INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  value TEXT,
  told TEXT,
  cause TEXT,
  changed_at INTEGER,
  PRIMARY KEY (plan, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX live_plan_row_user ON live_plan_row (user_id);
