import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { jsonLines, rollcall } from './helpers.ts';

const CONFIG = `
store: sqlite:./rollcall.db
sources: [{ id: personas, writeKey: k }]
eventLog: {}
audiences:
  - { name: Buyers, source: personas, when: { performed: "Order's End", within: 1d } }
  - { name: Elsewhere, source: personas, paused: true, when: { trait: plan, is: pro } }
traits:
  - { name: Total, source: personas, sql: "select user_id, 1 as value from orders where at < $now; -- all" }
`;

t.test('plan --sql prints the SQL of every definition without opening anything', async (t) => {
  const folder = t.testdir({ 'rollcall.yaml': CONFIG });
  const config = ['-c', join(folder, 'rollcall.yaml')];
  const all = await rollcall(['plan', '--sql', ...config]);
  t.equal(all.code, 0, all.stderr);
  t.match(all.stdout, /^-- buyers \(audience, engine lake\)\nSELECT user_id FROM/);
  t.match(all.stdout, /event = 'Order''s End'\n *AND "timestamp" <= \$now/s);
  t.match(all.stdout, /-- elsewhere \(audience, engine lake\)\n.*json_type/s, 'one that is paused, too');
  t.match(
    all.stdout,
    /-- total \(trait, engine lake\)\nselect user_id, 1 as value from orders where at < \$now -- all\n;/,
  );
  const [buyers, ...others] = jsonLines(
    await rollcall(['plan', 'buyers', '--sql', '--json', '--now', '2026-03-01', ...config]),
  );
  t.match(buyers, { key: 'buyers', kind: 'audience', engine: 'lake', sql: /<= TIMESTAMP '2026-03-01 00:00:00.000'/ });
  t.same(others, []);
  t.match(await rollcall(['plan', 'buyer', '--sql', ...config]), { code: 2, stderr: /Did you mean buyers\?/ });
  t.notOk(existsSync(join(folder, 'rollcall.db')));
});
