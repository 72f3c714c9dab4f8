import type { Test } from 'tap';
import type { Json } from './contract.ts';
import type { Service } from './service.ts';

/** Values that somebody types by mistake or on purpose, as they stand in an address. */
const ODD = [
  ...' %20 0 -1 1e309 NaN 99999999999999999999 true null %5B%5D 1%2C2 ..%2F.. %25 MA __proto__ constructor toString'.split(
    ' ',
  ),
  ...'%00 a%00b %F0%9F%91%A9 %EF%BF%BF %27%20OR%201=1-- 2026-02-30 0001-01-01 9999-12-31 +275760-09-13'.split(' '),
  'x'.repeat(3_000),
];
/** Places in lists that no page has ever ended with. */
const PLACES =
  '0 -1 9:x 999999999999999 9999999999999999 a:1 delivered:9999999999999999 zzz-zzz 0:\0 99999999999999:\0 \0'.split(
    ' ',
  );

/** Bodies of orders, as text. */
const BODIES: readonly string[] = [
  ...[null, [], 'text', 7, true, [[]], {}, { all: false }, { ids: [] }, { ids: 'x' }, { ids: [7] }, { ids: [''] }],
  ...['\0', '\ud800', '99999999999999999999999', '__proto__'].flatMap((odd) => [{ ids: [odd] }, { userId: odd }]),
  ...[{ ids: Array(5_000).fill('1') }, { userId: {} }, { destination: 7 }, { reason: 'toString' }, { since: 'x' }],
  ...[{ destination: 'nowhere', cursor: 'x'.repeat(501) }, { all: true, until: '0001-01-01' }, { now: '2026-02-30' }],
]
  .map((body) => JSON.stringify(body))
  .concat(
    '{',
    '',
    '[',
    '{"__proto__":{"all":true}}',
    '{"constructor":{"prototype":{}}}',
    '['.repeat(20_000),
    '\ufeff{}',
  );
const TYPES = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'application/xml'];

type Parameter = { readonly in: string; readonly name: string };
type Parts = Pick<Service, 'ask'> & { readonly document: Json; readonly things: Readonly<Record<string, string>> };

const filled = (path: string, inPlaceOf: (name: string) => string) =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => inPlaceOf(name));

/** Every fourth, beginning with another each time, so that all of them are asked of some route; `ODD_REQUESTS=all` takes all. */
const some = (() => {
  const part = process.env['ODD_REQUESTS'] === 'all' ? 1 : 4;
  let turn = 0;
  return <T>(values: readonly T[]): readonly T[] => {
    turn += 1;
    return values.filter((_, place) => (place + turn) % part === 0);
  };
})();

/** Asks every route for odd things: whatever is asked is answered as the document says, and none is the service's fault. */
export async function oddRequests(t: Test, { ask, document, things }: Parts): Promise<void> {
  let asked = 0;
  const refusedWell = async (path: string, options: RequestInit = {}) => {
    const response = await ask(path, options);
    const text = await response.text();
    asked += 1;
    if (response.status >= 500 || /"internal_error"/.test(text))
      t.fail(
        `${options.method ?? 'GET'} ${path} ${String(options.body ?? '').slice(0, 100)}: ${response.status} ${text}`,
      );
  };
  for (const [path, { get, post }] of Object.entries<Record<string, Json>>(document.paths)) {
    if (/\/(events|session)$/.test(path)) continue;
    const isThere = filled(path, (name) => encodeURIComponent(things[name] ?? ''));
    const odd = (value: string) => filled(path, () => value);
    const parameters: readonly Parameter[] = (get ?? post).parameters ?? [];
    if (parameters.some((each) => each.in === 'path'))
      for (const value of some(ODD)) if (value !== '') await refusedWell(odd(value), post ? order('{}') : {});
    if (get) {
      const user = path.endsWith('/why') ? 'user=u1&' : '';
      for (const { name } of parameters.filter((each) => each.in === 'query')) {
        for (const value of some(ODD)) await refusedWell(`${isThere}?${user}${name}=${value}`);
        await refusedWell(`${isThere}?${user}${name}=1&${name}=2`);
        if (name === 'cursor') for (const place of PLACES) await refusedWell(`${isThere}?${name}=${btoa(place)}`);
      }
    }
    // An order that takes whatever it is given would do something to what is there.
    const target = post?.requestBody ? isThere : filled(path, () => 'nowhere');
    if (post) {
      for (const body of some(BODIES)) await refusedWell(target, order(body));
      for (const type of some(TYPES)) await refusedWell(target, order('all=true', type));
    }
  }
  t.ok(asked > 700, `${asked} requests`);
}

const order = (body: string, type = 'application/json'): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': type },
  body,
});

/** A query that nobody knows is refused, so that no answer is taken for what it is not. */
export async function unknownFilters(t: Test, { ask, document, things }: Parts): Promise<void> {
  for (const [path, { get }] of Object.entries<Record<string, Json>>(document.paths)) {
    if (!get || /\/(events|session)$/.test(path)) continue;
    const query = path.endsWith('/why') ? 'user=u1&' : '';
    const response = await ask(`${filled(path, (name) => encodeURIComponent(things[name] ?? ''))}?${query}usrId=u1`);
    t.match(
      [response.status, await response.json()],
      [400, { code: 'invalid_request', message: /usrId is not known/ }],
      path,
    );
  }
}
