/** Every code that Rollcall raises or answers with; `docs/errors.md` lists each with what to do. */
export type ErrorCode =
  // collection
  | 'invalid_json'
  | 'invalid_message'
  | 'invalid_request'
  | 'too_large'
  | 'too_deep'
  | 'too_many_messages'
  | 'unsupported_media_type'
  | 'empty_batch'
  | 'unknown_type'
  | 'unknown_source'
  | 'source_disabled'
  | 'no_user_anon_id'
  | 'no_user_id'
  | 'no_group_id'
  | 'no_previous_id'
  | 'event_not_defined'
  | 'event_not_string'
  | 'name_not_string'
  | 'id_not_string'
  | 'id_too_long'
  | 'properties_not_object'
  | 'traits_not_object'
  | 'context_not_object'
  | 'integrations_not_object'
  | 'not_found'
  | 'method_not_allowed'
  | 'unauthorized'
  | 'forbidden'
  | 'rate_limited'
  // store
  | 'store_full'
  | 'store_failed'
  | 'store_busy'
  | 'store_damaged'
  | 'store_read_only'
  | 'store_closed'
  | 'store_outdated'
  | 'queue_full'
  | 'fence_lost'
  | 'epoch_moved'
  // sync
  | 'sql_failed'
  | 'source_incomplete'
  | 'column_missing'
  | 'column_type'
  | 'column_taken'
  | 'sql_timeout'
  | 'interrupted'
  | 'snapshot_lost'
  | 'snapshot_moved'
  | 'engine_changed'
  | 'engine_unreachable'
  | 'engine_failed'
  | 'run_held'
  | 'run_in_progress'
  | 'older_configuration'
  | 'unknown_audience'
  | 'unknown_run'
  // configuration and command line
  | 'bad_configuration'
  | 'bad_usage'
  | 'stopping'
  | 'request_timeout'
  | 'overloaded'
  | 'internal_error';

/** An error that a person or a client can act on: a stable code and a message that says what to do. */
export class RollcallError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RollcallError';
    this.code = code;
  }
}
