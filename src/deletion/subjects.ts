import * as z from 'zod';

export const MAX_USERS = 5_000;

/** The users of a request. Blank ids are rejected: audiences count them as invalid too. */
export const subjectIds = z
  .array(
    z
      .string()
      .regex(/\S/, 'must be a user id: not empty, not only blanks')
      .regex(/^[^\0]*$/, 'must be a user id: no NUL character'),
  )
  .min(1)
  .max(MAX_USERS);
