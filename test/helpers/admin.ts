/** `admin` of configurations whose routes a test asks, and the header that it then sends. */
export const ADMIN = { token: 'a-token-that-only-tests-have' };
export const AS_ADMIN = { authorization: `Bearer ${ADMIN.token}` };
