import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';

import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import { launch, logged, type Program } from '../helpers/program.ts';
import { Ledger, SECRET } from './ledger.ts';

const PAGE = 8_192;
const MESSAGES = 600;

/** Damage done to a store while nobody has it open; `random(n)` is a whole number from 1 to n. */
export const DAMAGES = {
  'ten pages are overwritten'(path, random) {
    const pages = Math.floor(statSync(path).size / PAGE);
    const file = openSync(path, 'r+');
    for (let count = 0; count < 10; count += 1) {
      const garbage = Buffer.from(Array.from({ length: PAGE }, () => random(256) - 1));
      writeSync(file, garbage, 0, PAGE, random(pages - 1) * PAGE);
    }
    closeSync(file);
  },
  'its beginning is overwritten'(path, random) {
    const file = openSync(path, 'r+');
    writeSync(file, Buffer.from(Array.from({ length: 100 }, () => random(256) - 1)), 0, 100, 0);
    closeSync(file);
  },
  'its end is cut off'(path, random) {
    truncateSync(path, statSync(path).size - random(20_000));
  },
  'it is emptied'(path) {
    truncateSync(path, 0);
  },
  'it is emptied, with no trace of its log'(path) {
    truncateSync(path, 0);
    for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  },
  'it is another sort of file'(path) {
    writeFileSync(path, 'Dear diary, this is not a database.\n'.repeat(500));
  },
  'an older file is put back beside the log of the newer one'(path) {
    // As `rollcall backup` leaves it: without a log of its own.
    const old = new DatabaseSync(`${path}.old`);
    old.exec('PRAGMA page_size = 8192; CREATE TABLE delivery (id INTEGER PRIMARY KEY, body TEXT)');
    old.close();
    renameSync(`${path}.old`, path);
    if (!existsSync(`${path}-wal`)) throw new Error('there is no log to leave');
  },
  'it is gone, but not its log'(path) {
    rmSync(path);
  },
  'its folder is gone'(path) {
    rmSync(dirname(path), { recursive: true });
  },
} as const satisfies Record<string, (path: string, random: (most: number) => number) => void>;
export type Damage = keyof typeof DAMAGES;

/** Words that people must read about each, beside the full path. */
const SAID: Partial<Record<Damage, RegExp>> = {
  'its folder is gone': /store_failed.*The folder \/\S+ ?.*does not exist.*(Create|mount)/s,
  'an older file is put back beside the log of the newer one': /store_damaged.*-wal belongs to another file/s,
  'it is gone, but not its log': /store_missing.*is gone: \S+-wal is there/s,
};

/** A store with messages that could not be delivered yet, as its process left it. */
export interface Left {
  readonly folder: string;
  readonly ids: readonly string[];
  remove(): void;
}

/** @param signal - what ends the process: killed, it leaves a log beside its store */
export async function leaveStore(signal: 'SIGKILL' | 'SIGTERM'): Promise<Left> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-left-'));
  const config = join(folder, 'rollcall.yaml');
  mkdirSync(join(folder, 'data'));
  writeFileSync(config, configuration(NOTHING_LISTENS));
  const { child, address, ended } = launch(['start', '-c', config]);
  try {
    const ids: string[] = [];
    const url = (await address) ?? '';
    for (let sent = 0; sent < MESSAGES; sent += 20) ids.push(...(await sendBatch(url, sent)));
    return { folder, ids, remove: () => rmSync(folder, { recursive: true }) };
  } finally {
    child.kill(signal);
    await ended;
  }
}

/** With a log beside the store or without, as it happens, unless the damage needs one. */
export function endBefore(damage: Damage, random: (most: number) => number): 'SIGKILL' | 'SIGTERM' {
  const needsLog = damage.includes('log') && damage !== 'it is emptied, with no trace of its log';
  return needsLog || random(2) === 1 ? 'SIGKILL' : 'SIGTERM';
}

/** With its store damaged, it must refuse to go on as if nothing had happened; and with the store put back delivers all. */
export async function damageRound(
  t: Test,
  damage: Damage,
  random: (most: number) => number,
  left: Left,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-damage-'));
  const ledger = new Ledger(false);
  const port = await ledger.listen();
  const config = join(folder, 'rollcall.yaml');
  const path = join(folder, 'data', 'rollcall.db');
  const running: Program[] = [];
  const start = () => {
    const program = launch(['start', '-c', config]);
    running.push(program);
    return program;
  };
  const stop = async ({ child, ended }: Program) => {
    child.kill('SIGTERM');
    return ended;
  };
  const putStore = () => {
    rmSync(dirname(path), { recursive: true, force: true });
    cpSync(join(left.folder, 'data'), dirname(path), { recursive: true });
  };
  try {
    putStore();
    DAMAGES[damage](path, random);
    writeFileSync(config, configuration(port));
    const first = start();
    const found = await Promise.race([refusal(first), whole(first, ledger, left.ids)]);
    const ended = await stop(first);
    t.equal(left.ids.length, MESSAGES);
    if (found === 'whole') t.comment(`${damage}: what was hit held nothing, and all was delivered`);
    else {
      t.comment(`${damage}: ${found === 'refused' ? 'it did not start' : 'it answers 503'}`);
      t.match(ended.stderr, SAID[damage] ?? /store_damaged/);
      t.match(ended.stderr, damage === 'its folder is gone' ? dirname(path) : path, 'the full path is named');
      if (!SAID[damage]) t.match(ended.stderr, /docs\/deployment\.md/, 'and what to do');
      if (found !== 'refused') t.same(found, REFUSED);
    }

    putStore();
    const second = start();
    await second.address;
    while (!left.ids.every((id) => ledger.messages.has(id))) await ledger.accepted(1);
    const last = await stop(second);
    t.same(
      [last.code, logged(last).filter(({ level }) => Number(level) >= 50)],
      [0, []],
      'with the store put back all is delivered',
    );
  } finally {
    for (const { child } of running) child.kill('SIGKILL');
    ledger.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How a process that has come up shows that its store is damaged. */
const REFUSED = { intake: [503, 'store_damaged'], ready: [503, 'store_damaged'], alive: 200 };

/** Resolves once the process has ended with an error, or shows by its answers that it does not go on. */
async function refusal({ address, ended }: Program): Promise<'refused' | object> {
  const url = await address;
  if (url === null) {
    const { code } = await ended;
    return code === 1 ? 'refused' : { code };
  }
  for (;;) {
    const ready = await answer(`${url}/readyz`);
    if (ready[0] !== 200) {
      const intake = await answer(`${url}/v1/track`, 'key');
      return { intake, ready, alive: (await answer(`${url}/healthz`))[0] };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function whole({ address }: Program, ledger: Ledger, ids: readonly string[]): Promise<'whole'> {
  await address;
  while (!ids.every((id) => ledger.messages.has(id))) await ledger.accepted(1);
  return 'whole';
}

async function answer(url: string, writeKey?: string): Promise<[status: number, code: string]> {
  const post = {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${writeKey}:`)}`, 'content-type': 'application/json' },
    body: '{"event":"e","userId":"u"}',
  };
  const response = await fetch(url, writeKey === undefined ? {} : post);
  return [response.status, ((await response.json()) as { code: string }).code];
}

/** Resolves to the ids that were acknowledged. */
async function sendBatch(address: string, from: number): Promise<readonly string[]> {
  const ids = Array.from({ length: 20 }, (_, index) => `m${from + index}`);
  const properties = { filler: 'x'.repeat(1_500) };
  const batch = ids.map((messageId) => ({ type: 'track', event: 'Bought', userId: 'u1', messageId, properties }));
  const response = await fetch(`${address}/v1/batch`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ batch }),
  });
  await response.arrayBuffer();
  return response.status === 200 ? ids : [];
}

/** Deliveries to it stay in the store. */
const NOTHING_LISTENS = 9;

function configuration(port: number): string {
  const webhooks = [{ url: `http://127.0.0.1:${port}/` }];
  return JSON.stringify({
    store: 'sqlite:./data/rollcall.db',
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: SECRET, webhooks }],
  });
}
