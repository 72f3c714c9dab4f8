import { join } from 'node:path';
import t from 'tap';
import { engineCases } from '../../../jobs/engines/contract/index.ts';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import type { Engine } from '../../../jobs/engines/port.ts';
import { systemClock } from '../../../src/kernel/clock.ts';

/** Engines with one fault each, and the case that must find it. */
const FAULTS: Readonly<Record<string, (engine: Engine) => Partial<Engine>>> = {
  'later plans have what changed, both ways': () => ({ commit: async () => {} }),
  'a plan is read in parts, from any position': ({ changes }) => ({
    changes: (plan, after, limit) => changes(plan, Math.max(0, after - 1), limit),
  }),
  'a forgotten user is nowhere': () => ({ forget: async () => {} }),
  'a preview says the same as a plan and leaves nothing': ({ stage, changes }) => ({
    preview: async (request) => ({ ...(await stage(request)), sample: await changes(request.plan, 0, 4) }),
  }),
  'a resync has everybody, and everybody who ever left': ({ stage }) => ({
    stage: (request) => stage({ ...request, action: 'sync' }),
  }),
};

for (const [name, fault] of Object.entries(FAULTS)) {
  t.test(`an engine with a fault fails: ${name}`, async (t) => {
    const folder = t.testdir({});
    const config = { type: 'duckdb', path: join(folder, 'a.duckdb'), memoryLimit: null, threads: 1 } as const;
    const open = async () => {
      const engine = await openDuckdb(config, { folder, clock: systemClock });
      t.teardown(() => engine.close());
      return { ...engine, ...fault(engine) };
    };
    const found = engineCases.find((candidate) => candidate.name === name);
    if (!found) throw new Error(`There is no case ${name}.`);
    await t.rejects(
      found.run(async () => ({ engine: await open(), reopen: open })),
      { code: 'ERR_ASSERTION' },
    );
  });
}
