import fc from 'fast-check';
import t from 'tap';
import type { Destination } from '../../src/destination.ts';
import { route } from '../../src/route/route.ts';

const source = fc.constantFrom('shop', 'app', 'personas');
const destination = fc
  .record({ enabled: fc.boolean(), sources: fc.uniqueArray(source, { minLength: 1 }) })
  .map(({ enabled, sources }): Destination => {
    const endpoints = [{ id: 'e', url: 'https://x.example/', headers: {} }];
    return { name: 'd', enabled, sources, secrets: [], endpoints, require: 'any', ratePerSecond: null };
  });
const key = fc.oneof(fc.constantFrom('All', 'Webhooks', 'all', 'webhooks', 'Slack'), fc.string());
const integrations = fc.option(fc.dictionary(key, fc.oneof(fc.boolean(), fc.constantFrom({}, null, 'yes', 1))));

/** The rules of the integrations object, said once more in another way. */
function isEnabled(given: Record<string, unknown> | null): boolean {
  const own = new Map(Object.entries(given ?? {}));
  const named = own.get('Webhooks');
  if (named === true || (typeof named === 'object' && named !== null)) return true;
  return named !== false && own.get('All') !== false && own.get('all') !== false;
}

t.test('routes a message exactly to connected and enabled destinations that nothing excludes', async (t) => {
  fc.assert(
    fc.property(source, integrations, fc.array(destination), (from, given, destinations) => {
      const expected = destinations.filter((each) => each.enabled && each.sources.includes(from) && isEnabled(given));
      const routed = route(from, given, destinations);
      return routed.length === expected.length && routed.every((each, index) => each === expected[index]);
    }),
  );
  t.pass();
});

t.test('ignores keys of other destinations and of another case', async (t) => {
  fc.assert(
    fc.property(source, integrations, fc.array(destination), key, fc.boolean(), (from, given, all, other, value) => {
      if (['All', 'all', 'Webhooks'].includes(other)) return true;
      return route(from, { ...given, [other]: value }, all).length === route(from, given ?? {}, all).length;
    }),
  );
  t.pass();
});
