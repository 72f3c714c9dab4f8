import * as z from 'zod';

/** Users in a request at most. */
export const MAX_USERS = 5_000;

/** The users of a request. An id of blanks is nobody's: audiences count it as invalid. */
export const subjectIds = z
  .array(
    z
      .string()
      .regex(/\S/, 'must be a user id: not empty, not only blanks')
      .regex(/^[^\0]*$/, 'must be a user id: no NUL character'),
  )
  .min(1)
  .max(MAX_USERS);
