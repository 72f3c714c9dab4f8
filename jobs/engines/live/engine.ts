import { RollcallError } from '../../../src/kernel/errors.ts';
import { valueColumn } from '../definitions/value-column.ts';
import type { Engine } from '../port.ts';
import type { LiveContext } from './context.ts';
import {
  changedBy,
  eachChangedBy,
  eachMember,
  lookupUsers,
  memberPage,
  readAudience,
  readCauses,
  readHistory,
} from './members.ts';
import { cutPlan, planRows, readPlan, readStaged } from './plan.ts';
import { previewPlan, stagePlan } from './stage.ts';

/** The engine of live audiences, whose membership is already computed and stored. */
export function openLive(live: LiveContext): Engine {
  const { store } = live;
  return {
    async snapshot(key) {
      const { version = 0, members = 0 } = (await readAudience(store, key)) ?? {};
      return { version, members };
    },
    stage: (request) => stagePlan(live, request),
    async describe({ key, with: columns }) {
      const value = live.definedValue(key);
      if (value !== null) return [valueColumn(key, value)];
      return (columns?.names ?? []).map((name) => ({ key: name, type: 'unknown', isList: false }));
    },
    preview: (request, sampleSize) => previewPlan(live, request, sampleSize),
    staged: (plan) => readStaged(store, plan),
    changes: (plan, after, limit) => readPlan(live, plan, after, limit),
    commit: (plan) => commitPlan(live, plan),
    cut: (plan, after) => cutPlan(store, plan, after),
    discard: (plan) => store.dropPlan(plan),
    drop: (key) => store.dropAudience(key),
    lookup: (key, users, plan) => lookupUsers(live, key, users, plan),
    members: (key) => eachMember(live, key),
    memberPage: (key, after, limit) => memberPage(live, key, after, limit),
    runChanges: (key, version) => eachChangedBy(live, key, version),
    runChangePage: (key, version, after, limit) => changedBy(live, key, version, after, limit),
    history: (key, user) => readHistory(live, key, user),
    causes: (key, user) => readCauses(store, key, user),
    prune: (before) => store.pruneChanges(before),
    forget: (users, keys = null) => store.forgetUsers(users, keys),
    scrub: async () => undefined,
    close: async () => undefined,
  };
}

async function commitPlan({ store, now }: LiveContext, plan: string): Promise<void> {
  const staged = await readStaged(store, plan);
  if (!staged?.moves) return;
  const { key, fromVersion, toVersion } = staged;
  const audience = await readAudience(store, key);
  if (audience === null || audience.version === toVersion) return;
  if (audience.version !== fromVersion) {
    throw new RollcallError('snapshot_moved', `Another run has moved the snapshot of ${key}.`);
  }
  let after = 0;
  for await (const rows of planRows(store, plan)) {
    const last = rows.at(-1)?.position ?? after;
    await store.tellPlan(plan, after, last, now());
    after = last;
  }
  await store.advanceAudience(key, toVersion);
}
