/* Every code that Rollcall raises or answers with. `npm run reference` writes docs/errors.md from this list. */

import { CLIENT_TYPES } from '../message-types.ts';

interface Explanation {
  readonly status: number;
  readonly meaning: string;
  readonly remedy: string;
  /** Commands and places for an operator to find out more; null if the message says it all. */
  readonly look: string | null;
}

const code = (status: number, meaning: string, remedy: string, look: string | null = null): Explanation => ({
  ...{ status, meaning, remedy, look },
});

/** A code that collection answers with; an operator sees it in `rollcall discards`. */
const discard = (status: number, meaning: string, remedy: string) =>
  code(status, meaning, remedy, '`rollcall discards`');

export const HTTP_CODES = {
  invalid_json: discard(
    400,
    'The body is not JSON, or cannot be decompressed.',
    'Send JSON, and `Content-Encoding: gzip` if it is compressed.',
  ),
  invalid_message: discard(400, 'A message or a batch is not a JSON object.', 'Send an object.'),
  invalid_request: discard(400, 'The request is malformed; the message says where.', 'Correct it.'),
  too_large: discard(
    400,
    'The request is larger than 500 KB (batch) or 32 KB (call) after decompressing.',
    'Send smaller ones.',
  ),
  too_deep: discard(400, 'The message is nested too deep.', 'Flatten it.'),
  too_many_messages: discard(400, 'The batch has more messages than are allowed.', 'Send several batches.'),
  empty_batch: discard(400, 'The batch has no messages.', 'Send no empty batches.'),
  unknown_type: discard(
    400,
    'The type is not one of the six that clients send.',
    `Use ${CLIENT_TYPES.slice(0, -1).join(', ')} or ${CLIENT_TYPES.at(-1)}.`,
  ),
  unknown_source: discard(
    401,
    'No source has this write key, or no key was sent.',
    'Compare the key with `sources` in the configuration.',
  ),
  source_disabled: discard(403, 'The source is disabled.', 'Set `enabled: true` on it.'),
  placeholder_id: discard(
    200,
    'The message is accepted, but links no ids: one of them means nobody, such as `undefined`.',
    'Correct the client; it sends the name of a missing value as an id.',
  ),
  no_user_anon_id: discard(400, 'The message has neither userId nor anonymousId.', 'Send one of them.'),
  no_user_id: discard(400, 'An alias has no userId.', 'Send it.'),
  no_group_id: discard(400, 'A group has no groupId.', 'Send it.'),
  no_previous_id: discard(400, 'An alias has no previousId.', 'Send it.'),
  event_not_defined: discard(400, 'A track has no event name.', 'Send one.'),
  event_not_string: discard(400, 'The event name is not text.', 'Send text.'),
  name_not_string: discard(400, 'The name of a page or screen is not text.', 'Send text.'),
  id_not_string: discard(
    400,
    'userId, anonymousId, groupId, previousId or messageId is neither text nor a number up to 2^53.',
    'Send text.',
  ),
  id_too_long: discard(
    400,
    'A messageId has more than 100 characters, or another id more than 1,000 bytes.',
    'Shorten it.',
  ),
  properties_not_object: discard(400, '`properties` is not an object.', 'Send an object.'),
  traits_not_object: discard(400, '`traits` is not an object.', 'Send an object.'),
  context_not_object: discard(400, '`context` is not an object.', 'Send an object.'),
  integrations_not_object: discard(400, '`integrations` is not an object.', 'Send an object.'),
  method_not_allowed: discard(405, 'Messages are sent with POST.', 'Use POST; the address is right.'),
  unsupported_media_type: code(415, 'An admin route wants `application/json`.', 'Set `Content-Type`.'),
  not_found: code(404, 'Nothing exists at this path.', 'Compare it with the documented paths.'),
  unauthorized: code(
    401,
    'The admin token is missing or wrong.',
    'Send `Authorization: Bearer TOKEN`, or sign in.',
    '`admin` in the configuration',
  ),
  port_taken: code(
    503,
    'Another program listens at `listen.port`, such as an instance of the service that has not ended yet.',
    'Set `listen.port` to another one, or end that program. A supervisor may try again.',
    'the output of `rollcall start`',
  ),
  no_admin_token: code(
    503,
    'No admin token is configured, and there is no token file: it can’t be written, or no service has started here.',
    'Set `admin.token`, or name a place that can be written: `admin.tokenFile`, `--token-file`.',
    'the log of the start',
  ),
  forbidden: code(
    403,
    'The admin token lacks the right, or a page of another site asks.',
    'Give the token the right in `admin.tokens`.',
    '`admin` in the configuration',
  ),
  rate_limited: code(
    429,
    'The source sends too many requests, or this address sent too many wrong admin tokens.',
    'Wait as long as `Retry-After` says. Raise `rateLimit` of the source if the traffic is right.',
    '`rollcall_discards_total`, `rateLimit` of the source',
  ),
  request_timeout: code(408, 'The request took too long to arrive.', 'Try again.'),
  overloaded: code(
    503,
    'Too many requests are in progress, from this source, without a write key, or to the management API.',
    'Clients try again. If it stays, add a process or raise its CPU (docs/deployment.md#sizing).',
    '`process_cpu_seconds_total`, `nodejs_eventloop_lag_p99_seconds`',
  ),
  internal_error: code(
    500,
    'Rollcall has a fault; its log has the details.',
    'Try again, and report it with the line of the log.',
    'the log, level `error`',
  ),
} satisfies Record<string, Explanation>;

export const STORE_CODES = {
  store_full: code(
    503,
    'The disk of the store is full. Nothing acknowledged was lost, and delivery goes on.',
    'Free some space. Intake resumes automatically.',
    '`rollcall doctor`, `df` on the folder of the store',
  ),
  store_failed: code(
    503,
    'The store cannot be opened, read or written; the message says why.',
    'Check the file or the database. If the thread of the store ended, the process ends too (exit code 1): restart it.',
    '`rollcall doctor`, `/readyz`, the log of the database',
  ),
  store_busy: code(
    503,
    'The database is locked, has no free connection, or took too long.',
    'Rollcall tries again. If it stays, find what holds or loads the database.',
    '`rollcall_store_ping_seconds`, `pg_stat_activity` of Postgres',
  ),
  store_damaged: code(
    503,
    'The file of the store, or a page or an index of the Postgres database, is damaged. Rollcall takes and delivers ' +
      'nothing more; what can still be read, it reads.',
    'Restore a backup (docs/deployment.md#a-damaged-store). Restarting does not help.',
    '`rollcall doctor`',
  ),
  store_read_only: code(
    503,
    'The file, its folder or the disk cannot be written; or the Postgres server is a standby.',
    'Let the user write there, or name the server that takes writes.',
    '`rollcall doctor`, `mount`, `select pg_is_in_recovery()`',
  ),
  store_missing: code(
    503,
    'The file of the store is not there, or another one is in its place; or a running process lost it, and ended. ' +
      'Nothing new is made where another file, the engines or the event log show that there was a store.',
    'Put the file or the newest backup back, or correct `store` (docs/deployment.md#a-lost-store). `rollcall start --new-store` begins with an empty one.',
    '`rollcall doctor`, `store` in the configuration',
  ),
  store_closed: code(503, 'The process is stopping.', 'Try again.', 'the log: who sent SIGTERM?'),
  store_outdated: code(
    503,
    'The database has another version than this Rollcall.',
    'Do as the message says: run `rollcall migrate`, or start the version that made the tables.',
    '`rollcall --version`',
  ),
  event_log_missing: code(
    503,
    "The event log's folder or bucket has none of the files that the store knows. Nothing is started, or sealed into it.",
    'Mount the folder or put its files back, or correct `eventLog.path`. If they are lost: `rollcall events --forget-missing`.',
    '`rollcall events --verify`',
  ),
  event_log_taken: code(
    503,
    "The bucket's prefix has the log of another store, or another machine writes to it with a copy of this store.",
    'Name another prefix in `eventLog.path`, or stop the other process.',
    'the object `log.json` in the bucket',
  ),
  bucket_failed: code(
    503,
    "The event log's bucket did not answer five times, or refused a request. Events are accepted and stay in the store.",
    'Do as the message says. What waits is sealed once the bucket takes it.',
    '`rollcall doctor`',
  ),
  event_log_stays: code(
    503,
    'A SQLite store with an event log was to be moved to Postgres. The log is in files, and does not move.',
    'Stay with SQLite, or move without it: `rollcall migrate … --without-event-log`. The files stay, and any tool for Parquet reads them.',
    '`rollcall events`',
  ),
} satisfies Record<string, Explanation>;

export const SYNC_CODES = {
  sql_failed: code(
    500,
    'The SQL of the definition failed; the message comes from the engine. Nothing was sent or changed.',
    'Correct the SQL, and try it with `rollcall plan KEY`.',
    '`rollcall runs RUN`, `rollcall plan KEY`',
  ),
  source_incomplete: code(
    500,
    'A file that the SQL reads is absent, ends too early, changed while it was read, or has no rows. Nothing was sent or changed.',
    'Rollcall tries again where a schedule runs it. Write files under another name, then rename them. Name the types of a CSV that may be empty. The message says if the file is likely to be still written.',
    '`rollcall runs RUN`, the file',
  ),
  file_differs: code(
    500,
    'A file is not as `tables` says, or is damaged: another type, other columns, a broken line. Nothing was sent or changed.',
    'Do as the message says: correct the file or the table. `rollcall plan KEY` shows the value.',
    '`rollcall plan KEY`, docs/engines.md#files',
  ),
  types_guessed: code(
    500,
    'DuckDB guesses the types of a file from its first lines, and a later line shows that a guess was wrong. Nothing was sent or changed.',
    'Name the file and its types under `tables` of the engine.',
    '`rollcall plan KEY` shows the value, docs/engines.md#files',
  ),
  dbt_stale: code(
    500,
    'A file in the `target` folder of a dbt project is absent, unreadable or older than the model, or has no such model. Nothing was sent or changed.',
    'Run `dbt compile`, or `dbt build`, in the project (docs/dbt.md).',
    '`rollcall plan KEY`, `target/manifest.json`',
  ),
  column_missing: code(
    500,
    'The result has no `user_id`, or a trait has no value column.',
    'Name the columns in the SQL.',
    '`rollcall plan KEY`',
  ),
  column_repeated: code(
    500,
    'The result has two columns of one name.',
    'Select one of them, or name them apart with `AS`.',
    '`rollcall plan KEY`',
  ),
  column_type: code(
    500,
    'The type of a column can be neither an id nor the value of a trait.',
    'Cast it in the SQL.',
    '`rollcall plan KEY`',
  ),
  columns_changed: code(
    409,
    'The columns of a trait changed although its definition did not.',
    'Name the columns in the SQL, or decide: `rollcall approve RUN`, `rollcall reject RUN`.',
    '`rollcall plan KEY`, `rollcall runs --held`',
  ),
  column_taken: code(
    500,
    'A column of a trait query has the key of another audience or trait.',
    'Rename the column in the SQL.',
    '`rollcall plan KEY`',
  ),
  sql_timeout: code(
    500,
    'The SQL took longer than the `timeout` of the audience and was cancelled.',
    'Make it faster, or raise `timeout`. Rollcall tries again.',
    '`rollcall runs KEY`: how long did it take before?',
  ),
  interrupted: code(
    500,
    'The process ended while it computed the run; nothing was sent.',
    'Nothing: the next run computes it again.',
    'the log: why did the process end?',
  ),
  snapshot_lost: code(
    500,
    'The engine no longer has what was last synced.',
    'Bring its file or schema back, or run `rollcall resync KEY`.',
    '`rollcall doctor`, `engines` in the configuration',
  ),
  snapshot_foreign: code(
    409,
    'The snapshots in the engine belong to another store.',
    'Give this store its own place: `schema: NAME` on the engine (ClickHouse: `database`). If that store has ended, run `rollcall engines adopt NAME`.',
    '`rollcall doctor`: is `store` the right one?',
  ),
  snapshot_moved: code(
    409,
    'The engine is ahead of the store: this store is another one, or an older copy.',
    'Use the right store, or run `rollcall resync KEY`.',
    '`rollcall doctor`: was a backup restored?',
  ),
  live_moved: code(
    409,
    'Another process changed the state of a live audience in the meantime.',
    'Nothing: it is computed again.',
    'the log of the process that computes',
  ),
  live_not_ready: code(
    409,
    'A live audience is not computed yet, or has to be rebuilt.',
    'Wait, or start `rollcall start` or `rollcall sync`, which compute it. For a plan before anything is sent, run `rollcall audiences pause KEY` first.',
    '`rollcall audiences`',
  ),
  engine_changed: code(
    409,
    'The snapshot of the audience is in another engine than the configuration now says.',
    'Set the engine back, or run `rollcall retire KEY` and sync again.',
    '`engine` of the audience in the configuration',
  ),
  engine_unreachable: code(
    500,
    'The database of the engine cannot be opened, or the configuration no longer has the engine.',
    'Check the database, and `engines` in the configuration.',
    '`rollcall doctor`',
  ),
  engine_busy: code(
    503,
    'Too many people ask the engine at once, or a deletion needed it and ended the query.',
    'Try again after `Retry-After`.',
    '`rollcall runs KEY`: how long does its SQL take?',
  ),
  engine_failed: code(
    500,
    'The engine failed outside the SQL of the definition.',
    'Read the message. The next sync tries again.',
    '`rollcall runs RUN`, the log',
  ),
  run_held: code(
    409,
    'A guard or an expectation holds the run.',
    'Decide: `rollcall approve RUN` or `rollcall reject RUN`.',
    '`rollcall runs --held`, `rollcall runs RUN --changes`',
  ),
  epoch_moved: code(
    409,
    'Users were deleted since this was computed.',
    'Nothing: the sync leaves them out and goes on.',
    '`rollcall runs KEY`: the next run is done',
  ),
  fence_lost: code(
    409,
    'Another process has taken over this audience.',
    'Nothing: that process goes on. If it happens often, look for processes that hang or clocks that jump.',
    '`rollcall runs KEY`, `nodejs_eventloop_lag_p99_seconds`',
  ),
  audience_paused: code(
    409,
    'The audience is paused, by a person or in the configuration.',
    'Resume it: `rollcall audiences resume KEY`, or `paused: false`.',
    '`rollcall audiences`, `rollcall audit --action audience.pause`',
  ),
  run_in_progress: code(
    409,
    'Another run of this audience is in progress.',
    'Wait for it.',
    '`rollcall audiences`: since when?',
  ),
  destination_away: code(
    409,
    'A change that died is not replayed to a destination that was away, before the run that gives it the difference.',
    'Nothing: the next run sends what died again. Or enable or connect the destination.',
    '`rollcall destinations`',
  ),
  older_configuration: code(
    409,
    'A newer configuration, with another definition, ran this audience last. This process still has an older one.',
    'Restart or reload this process with the newest file.',
    '`rollcall destinations`: which processes run?',
  ),
  unknown_audience: code(
    404,
    'No audience or trait has this key.',
    'Run `rollcall config check`; keys are in snake_case.',
  ),
  unknown_run: code(404, 'No run has this id, or it is no longer held.', 'See `rollcall runs`.'),
} satisfies Record<string, Explanation>;

export const PROGRAM_CODES = {
  bad_configuration: code(
    400,
    'The configuration has mistakes; each is named with its line.',
    'Correct them all.',
    '`rollcall config check`',
  ),
  bad_token_file: code(
    400,
    'The token file is empty, short, readable by other users, of another user, or no regular file.',
    'Run as its owner with mode 0600, remove it so that the next start makes another, or set `admin.token`.',
    '`ls -l rollcall.token`',
  ),
  bad_usage: code(400, 'An argument or option is wrong.', 'See `rollcall COMMAND --help`.'),
  queue_full: code(
    503,
    '`dead-letters replay` waits for a destination that accepts nothing.',
    'Start the service or repair the endpoint, then run the same command again.',
    '`rollcall endpoints list`',
  ),
  stopping: code(
    503,
    'The process is stopping. What it had accepted or begun to send goes on at the next start or sync.',
    'Try again.',
    'the log: who sent SIGTERM?',
  ),
} satisfies Record<string, Explanation>;

export const ERROR_CODES = { ...HTTP_CODES, ...STORE_CODES, ...SYNC_CODES, ...PROGRAM_CODES };
