import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import { launch, logged, type Program, track } from '../helpers/program.ts';

/** Losses of a store's files while a process has them open. */
export const LOSSES = {
  'all its files are removed'(path) {
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix);
  },
  'it is removed, but not its log': (path) => rmSync(path),
  'its log is removed': (path) => rmSync(`${path}-wal`),
  "its log's index is removed": (path) => rmSync(`${path}-shm`),
  'it is moved away': (path) => renameSync(path, `${path}.away`),
  'another file takes its place'(path) {
    const other = new DatabaseSync(`${path}.other`);
    other.exec('CREATE TABLE dead_letter (id)');
    other.close();
    renameSync(`${path}.other`, path);
  },
} as const satisfies Record<string, (path: string) => void>;
export type Loss = keyof typeof LOSSES;

/** The file that a start after the loss finds in the store's place: none, so that it must refuse. */
const LEAVES_NONE: readonly Loss[] = [
  'all its files are removed',
  'it is removed, but not its log',
  'it is moved away',
];

/** A process whose store is lost must end with an error, and take nothing after the loss. */
export async function lossRound(t: Test, loss: Loss, how: 'under load' | 'when idle' | 'just before a stop') {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-loss-'));
  const path = join(folder, 'rollcall.db');
  const config = join(folder, 'rollcall.yaml');
  writeFileSync(config, CONFIGURATION);
  const running: Program[] = [];
  const start = (...options: string[]) => {
    const program = launch(['start', '-c', config, ...options]);
    running.push(program);
    return program;
  };
  try {
    const service = start();
    const address = (await service.address) ?? '';
    t.equal(await track(address, 'key', 'first'), 200);
    const load = how === 'under load' ? [1, 2, 3].map((lane) => sendUntilRefused(address, lane)) : [];
    await Promise.all(load.map(({ isRunning }) => isRunning));
    LOSSES[loss](path);
    const lateFrom = load.map(({ sent }) => sent());
    if (how === 'just before a stop') service.child.kill('SIGTERM');
    const ended = await service.ended;
    t.equal(ended.code, 1, `${loss} ${how}: it ends with an error`);
    t.match(ended.stderr, new RegExp(`store_missing: The store ${path} is lost`));
    if (how !== 'just before a stop')
      t.match(
        logged(ended).filter(({ level }) => level === 60),
        [{ code: 'store_missing' }],
      );
    for (const [lane, { statuses }] of load.entries()) {
      // The request that was under way during the loss may have been answered before it.
      const late = (await statuses).slice((lateFrom[lane] ?? 0) + 1);
      t.notOk(late.includes(200), `nothing is taken after the loss: ${late}`);
    }
    if (!LEAVES_NONE.includes(loss)) return;
    const again = await start().ended;
    t.match(again, { code: 1, stderr: /^store_missing: .* is gone: .*rollcall start --new-store/m });
    const anew = start('--new-store');
    t.equal(await track((await anew.address) ?? '', 'key', 'second'), 200, 'it begins with an empty store if asked to');
    anew.child.kill('SIGTERM');
    t.equal((await anew.ended).code, 0);
    t.match(await start('--new-store').ended, { code: 2, stderr: /There is a store at/ }, 'but removes none');
  } finally {
    for (const { child } of running) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Send one message after the other until one gets another answer than 200. */
function sendUntilRefused(address: string, lane: number) {
  const statuses: (number | null)[] = [];
  let sent = 0;
  const { promise: isRunning, resolve } = Promise.withResolvers<void>();
  const sendAll = async () => {
    do {
      sent += 1;
      statuses.push(await track(address, 'key', `m${lane}-${sent}`));
      if (sent === 20) resolve();
    } while (statuses.at(-1) === 200);
    return statuses;
  };
  return { statuses: sendAll(), isRunning, sent: () => sent };
}

const CONFIGURATION = JSON.stringify({
  listen: { host: '127.0.0.1', port: 0 },
  sources: [{ id: 'shop', writeKey: 'key' }],
  destinations: [{ name: 'crm', sources: ['shop'], webhooks: [{ url: 'http://127.0.0.1:9/' }] }],
});
