/** Version of this package, as sent in `User-Agent` and `context.library`; a test holds it to package.json. */
export const version = '0.1.0';
