/** All codes of {@link ClientError}. Codes about messages are those of the collection API. */
export type ClientErrorCode =
  | 'bad_configuration'
  | 'invalid_message'
  | 'too_large'
  | 'no_user_anon_id'
  | 'no_user_id'
  | 'no_group_id'
  | 'no_previous_id'
  | 'event_not_defined'
  | 'event_not_string'
  | 'name_not_string'
  | 'id_not_string'
  | 'properties_not_object'
  | 'traits_not_object'
  | 'context_not_object'
  | 'integrations_not_object'
  | 'invalid_timestamp';

/** An invalid call or option. Thrown at the call; the network never causes one. */
export class ClientError extends Error {
  readonly code: ClientErrorCode;
  /** The field to correct, if one field is at fault. */
  readonly field: string | undefined;

  constructor(code: ClientErrorCode, message: string, field?: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'ClientError';
    this.code = code;
    this.field = field;
  }
}

/** A thrown value as text: the host's code may throw anything, such as an object without a prototype. */
export function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return 'something that cannot be turned into text';
  }
}
