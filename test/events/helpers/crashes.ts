import { fork } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import type { Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { Failpoint } from '../../../src/kernel/failpoint.ts';
import { openStore } from '../../../src/store/open.ts';
import { program } from '../../helpers/programs.ts';
import { bucketOf, type S3Server } from '../../helpers/s3.ts';
import { dayOf, HOUR, type LogPlace, type Orders, type Said, START, type Step } from './crash-terms.ts';
import { readLog } from './read-log.ts';

const CHILD = program('test/events/helpers/crashing.ts');

/** Where a process ends within what it does with the log, and the passes there that differ. */
interface Place {
  readonly step: Step;
  readonly failpoint: Failpoint;
  readonly passes: number;
}

const at = (step: Step, failpoints: readonly Failpoint[], most = 1) =>
  failpoints.flatMap((failpoint) =>
    Array.from({ length: most }, (_, n): Place => ({ step, failpoint, passes: n + 1 })),
  );
const FILES = ['log_planned', 'log_written', 'log_placed', 'log_listed'] as const;
const REMOVAL = ['log_removing', 'log_removed'] as const;

/** Every failpoint of everything that is done with a log in files. */
const IN_FILES: readonly Place[] = [
  ...at('drop', ['log_listed']),
  ...at('tidy', REMOVAL),
  ...at('seal', FILES),
  ...at('merge', FILES),
  ...at('erase', [...FILES, ...REMOVAL, 'log_noted']),
];

/** The same of a log in a table. */
const IN_TABLE: readonly Place[] = [
  // Within the transaction, and after it.
  ...at('drop', ['log_altered'], 2),
  // The lock, the table, what moves into it, its place, and after it; of the first part and the second.
  ...at('prepare', ['log_altered'], 10),
  ...at('erase', ['log_erased'], 2),
];

/** A log that lives through many crashes, and the books that are kept of it outside. */
export class Crashes {
  private readonly place: LogPlace;
  private readonly s3: S3Server | null;
  private readonly url: string;
  private readonly inFiles: boolean;
  /** Messages by their ids, with when they were sent first. */
  private readonly acknowledged = new Map<string, number>();
  private readonly erased = new Set<string>();
  /** Sent without an answer, and when for the first time. */
  private readonly unsure = new Map<string, number>();
  private erasing: string | null = null;
  private horizon = '2000-01-01';
  private now = START;
  private lives = 0;

  /**
   * @param database - the URL of an empty Postgres store; on SQLite unless given
   * @param s3 - has the files of a SQLite store's log; in a folder unless given
   */
  constructor(t: Test, database: string | null = null, s3: S3Server | null = null) {
    const folder = t.testdir({});
    this.place = { path: join(folder, 'events'), ...(s3 && { bucket: bucketOf(s3) }) };
    this.s3 = s3;
    this.url = database ?? `sqlite:${join(folder, 'rollcall.db')}`;
    this.inFiles = database === null;
  }

  /** Everywhere that it can be killed while something is done with the log. */
  get places(): readonly Place[] {
    return this.inFiles ? IN_FILES : IN_TABLE;
  }

  /** One life of the process; resolves to whether it ended where it was to. */
  async dieAt({ step, failpoint, passes }: Place): Promise<boolean> {
    const { signal } = await this.live({ step, crash: { failpoint, passes } });
    return signal === 'SIGKILL';
  }

  /** One that does this and that until it is killed, so long after its first word. */
  async dieAfter(ms: number, seed: number): Promise<boolean> {
    const never = { failpoint: 'migration', passes: 1 } as const;
    const { signal } = await this.live({ step: null, crash: never, seed }, ms);
    return signal === 'SIGKILL';
  }

  /** One that ends as it should. */
  async endWell(): Promise<boolean> {
    return (await this.live({ step: null, crash: null })).code === 0;
  }

  /** The log has what was acknowledged, each event once, and nothing of who was deleted or of days that were dropped. */
  async audit(t: Test): Promise<void> {
    const rows = await readLog(this.url, this.place);
    const found = Map.groupBy(rows, ({ messageId }) => messageId);
    const twice = [...found.values()].filter((same) => same.length > 1 || same[0]?.count !== 1);
    t.same(twice, [], 'nothing is in it twice');
    const isGone = (id: string, sent: number) =>
      this.erased.has(id.slice(0, id.indexOf('/'))) || dayOf(sent) < this.horizon;
    const kept = [...this.acknowledged].filter(([id, sent]) => !isGone(id, sent));
    const lost = kept.flatMap(([id]) => (found.has(id) ? [] : [id]));
    t.same(lost, [], `nothing of ${kept.length} events is lost, of ${this.acknowledged.size} in ${this.lives} lives`);
    const left = rows.filter(({ userId, day }) => this.erased.has(userId) || day < this.horizon);
    t.same(left, [], `nothing of ${this.erased.size} users is left, nor of days before ${this.horizon}`);
    if (this.inFiles) await this.auditFiles(t);
  }

  private async auditFiles(t: Test): Promise<void> {
    const store = await openStore({ url: this.url, maxQueued: 1 }, systemClock);
    const log = store.events;
    if (log.kind !== 'files') throw new Error('no log in files');
    const listed = (await log.state()).files.map(({ name }) => name);
    const known = new Set([...listed, ...(await log.leftovers()).map(({ name }) => name), 'deletions.jsonl']);
    await store.close();
    const { path } = this.place;
    const files = globSync('**/*', { cwd: path, withFileTypes: true }).filter((file) => file.isFile());
    const names = files.map((file) => join(file.parentPath, file.name).slice(path.length + 1));
    const strays = names.filter((name) => !known.has(name) && !name.startsWith('.work/') && name !== 'writer');
    t.same(strays, [], 'every file on the disk is known');
    if (this.s3 === null) return;
    const keys = [...this.s3.objects.keys()].map((key) => key.replace('some/log/', ''));
    t.same(
      keys.filter((key) => !known.has(key) && key !== 'log.json'),
      [],
      'every object is known',
    );
    const traces = [...this.erased].flatMap((user) => this.s3?.holding(user) ?? []);
    t.same(traces, [], 'no object has a byte of them');
  }

  private async live(
    { step, crash, seed = 0 }: Pick<Orders, 'step' | 'crash'> & { readonly seed?: number },
    killAfter?: number,
  ): Promise<{ readonly code: number | null; readonly signal: string | null }> {
    if (!this.inFiles) await this.endLeases();
    const { place, url, lives: life, horizon, erasing } = this;
    const orders: Orders = {
      ...{ place, url, life, horizon, erasing, step, crash, seed },
      now: this.now + HOUR,
      unsure: [...this.unsure.keys()],
    };
    this.lives += 1;
    const child = fork(CHILD, [JSON.stringify(orders)], { execArgv: [], env: { ...process.env, NODE_OPTIONS: '' } });
    child.on('message', (said) => this.hear(said as Said));
    const ended = once(child, 'exit');
    if (killAfter !== undefined) {
      void Promise.race([once(child, 'message').then(() => setTimeout(killAfter)), ended]).then(() =>
        child.kill('SIGKILL'),
      );
    }
    const [code, signal] = await ended;
    return { code, signal };
  }

  /** Those of a process that is dead end by the database's clock: nobody waits for that here. */
  private async endLeases(): Promise<void> {
    const client = new pg.Client(this.url);
    await client.connect();
    await client.query('UPDATE rollcall.lease SET lease_until = 0');
    await client.end();
  }

  private hear(said: Said): void {
    this.now = said.now;
    if ('sending' in said) {
      for (const id of said.sending) if (!this.unsure.has(id)) this.unsure.set(id, said.now);
    }
    if ('acknowledged' in said) {
      for (const id of said.acknowledged) {
        this.acknowledged.set(id, this.unsure.get(id) ?? this.now);
        this.unsure.delete(id);
      }
    }
    if ('dropping' in said) this.horizon = said.dropping;
    if ('erasing' in said) this.erasing = said.erasing;
    if ('erased' in said) {
      this.erased.add(said.erased);
      this.erasing = null;
    }
  }
}
