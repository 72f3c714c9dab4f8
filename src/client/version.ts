/** Version of this package, as sent in `User-Agent` and `context.library`; a test compares it with package.json. */
export const version = '0.1.0';
