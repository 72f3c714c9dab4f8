import t from 'tap';
import { createMetrics } from '../../src/admin/metrics.ts';

t.test('a scrape asks the store for its counters and for nothing else, and tells the backlog of now', async (t) => {
  const asked: string[] = [];
  const answers = {
    backlog: async () => [{ destination: 'crm', pending: 7, dead: 3, queued: 5, heldOut: 2 }],
    orphans: async () => [{ destination: 'gone', pending: 5, since: null, unknownFor: 0 }],
    endpoints: async () => [
      { endpoint: 'e1', destination: 'crm', pausedAt: null, deadSince: 1 },
      {
        endpoint: 'e2',
        destination: 'crm',
        pausedAt: null,
        deadSince: null,
        refusal: { since: 1, from: 1, takenAt: null },
      },
    ],
  };
  const store = new Proxy(answers, {
    get(target, verb) {
      asked.push(String(verb));
      return Reflect.get(target, verb);
    },
  });
  const text = await createMetrics(store, () => 0).registry.metrics();
  t.match(text, /^rollcall_backlog\{destination="crm"\} 7$/m);
  t.match(text, /^rollcall_dead_letters\{destination="crm"\} 3$/m);
  t.match(text, /^rollcall_held_out\{destination="crm"\} 2$/m);
  t.match(text, /^rollcall_orphaned_deliveries\{destination="gone"\} 5$/m);
  t.match(text, /^rollcall_closed_endpoints\{destination="crm",state="dead"\} 1$/m);
  t.match(text, /^rollcall_closed_endpoints\{destination="crm",state="refusing"\} 1$/m);
  t.same([...new Set(asked)].toSorted(), ['backlog', 'endpoints', 'orphans']);
});
