import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';
import { program } from '../helpers/programs.ts';
import { compute, DEFINITIONS, dates, type Purchase } from './cdnow.ts';
import { type Part, startPart } from './part.ts';
import type { Learned, ReceiverQuestion } from './receiver-part.ts';
import type { CommandAnswer, CommandQuestion } from './sync-part.ts';

const SECRET = 'a secret of the test';
const KEYS = [...Object.keys(DEFINITIONS.audiences), ...Object.keys(DEFINITIONS.traits)];
const COMMAND = program('src/cli/main.ts');

interface RunLine {
  readonly key: string;
  readonly first: boolean;
  readonly members: number;
  readonly entered: number;
  readonly exited: number;
  readonly sent: number;
}

/** The command as its own process, as cron would start it. */
async function spawnCommand({ args }: CommandQuestion): Promise<CommandAnswer> {
  const env = { ...process.env, NODE_OPTIONS: '' };
  const child = spawn(process.execPath, [COMMAND, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env });
  const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: Number(code), out, errors };
}

type RunCommand = Part<CommandQuestion, CommandAnswer>['ask'];

async function sync(runCommand: RunCommand, config: string, now: number): Promise<Map<string, RunLine>> {
  const args = ['sync', '-c', config, '--once', '--json', '--now', new Date(now).toISOString()];
  const { code, out, errors } = await runCommand({ args });
  assert.equal(code, 0, errors);
  const lines = out.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => JSON.parse(line) as RunLine).map((line) => [line.key, line]));
}

function writeConfig(folder: string, url: string, engine: object): string {
  const allowEmpty = { guard: { maxExits: '100%', allowEmpty: true } };
  const named = (definitions: Record<string, string>) =>
    Object.entries(definitions).map(([key, sql]) => ({ name: key, key, source: 'personas', sql, engine: 'orders' }));
  const config = {
    store: `sqlite:${join(folder, 'rollcall.db')}`,
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'personas', writeKey: 'personas-key' }],
    destinations: [{ name: 'app', sources: ['personas'], sharedSecret: SECRET, webhooks: [{ url }] }],
    engines: { orders: engine },
    audiences: named(DEFINITIONS.audiences).map((audience) => ({ ...audience, ...allowEmpty })),
    traits: named(DEFINITIONS.traits),
  };
  const file = join(folder, 'rollcall.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

/** Syncs as of each date and compares runs and the receiver's state with results of plain TypeScript. */
export async function follow(t: Test, folder: string, purchases: readonly Purchase[], engine: object): Promise<void> {
  const receiver = startPart<ReceiverQuestion, Learned>(t, 'test/e2e/receiver-part.ts');
  const commands = startPart<CommandQuestion, CommandAnswer>(t, 'test/e2e/sync-part.ts');
  const look = () => receiver.ask({ secret: SECRET });
  let learned = await look();
  const config = writeConfig(folder, learned.url, engine);
  let before = new Map<string, Map<string, unknown>>(KEYS.map((key) => [key, new Map()]));
  for (const [index, now] of dates().entries()) {
    const day = new Date(now).toISOString().slice(0, 10);
    const told = learned.identifies;
    // The first and every eighth date in a process of its own.
    const runs = await sync(index % 8 === 0 ? spawnCommand : commands.ask, config, now);
    learned = await look();
    const expected = compute(purchases, now);
    let sent = 0;
    for (const key of KEYS) {
      const was = before.get(key) ?? new Map();
      const is = expected.get(key) ?? new Map();
      const entered = [...is.keys()].filter((user) => !was.has(user)).length;
      const exited = [...was.keys()].filter((user) => !is.has(user)).length;
      const changed = [...is].filter(([user, value]) => was.has(user) && was.get(user) !== value).length;
      sent += entered + exited + changed;
      t.match(
        runs.get(key),
        { members: is.size, entered, exited, sent: entered + exited + changed },
        `${day} ${key}: ${entered} entered, ${exited} exited`,
      );
      assert.deepEqual(learned.state.get(key) ?? new Map(), is, `${day} ${key}: the receiver's state`);
    }
    t.equal(learned.identifies - told, sent, `${day}: every change arrived once`);
    if (index === 0) t.equal(learned.falses, 0, 'the first sync says false of nobody');
    before = expected;
  }
  const told = learned.identifies;
  const again = await sync(commands.ask, config, dates().at(-1) ?? 0);
  t.same(
    [...again.values()].map((run) => run.sent),
    KEYS.map(() => 0),
    'a repeated sync sends nothing',
  );
  t.equal((await look()).identifies, told);
}
