import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { Failpoint } from '../../../src/failpoint.ts';
import type { Orders, Said } from './crash-terms.ts';
import { keptLog } from './kept-log.ts';

export interface Crash {
  readonly failpoint: Failpoint;
  readonly passes: number;
}

const CHILD = fileURLToPath(new URL('./crashing.ts', import.meta.url));

/** A log that lives through many crashes, and the books that are kept of it outside. */
export class Crashes {
  private readonly folder: string;
  private readonly acknowledged = new Set<string>();
  private readonly erased = new Set<string>();
  private erasing: string | null = null;
  private life = 0;

  constructor(t: Test) {
    this.folder = t.testdir({});
  }

  /** One life of the process; resolves to whether it ended as it was to. */
  async live(crash: Crash | null, steps: number): Promise<boolean> {
    const orders: Orders = {
      folder: this.folder,
      life: this.life,
      steps,
      failpoint: crash?.failpoint ?? null,
      passes: crash?.passes ?? 0,
      erasing: this.erasing,
    };
    this.life += 1;
    const child = fork(CHILD, [JSON.stringify(orders)], { execArgv: [] });
    child.on('message', (said) => this.hear(said as Said));
    const [code, signal] = await once(child, 'exit');
    return crash ? signal === 'SIGKILL' : code === 0;
  }

  /** The log has what was acknowledged, each event once, and nothing of who was deleted. */
  async audit(t: Test): Promise<void> {
    const { query, log, onDisk, another } = await keptLog(t, { folder: this.folder });
    const rows = await query('SELECT message_id, user_id, count(*) FROM events GROUP BY ALL');
    const found = new Map(rows.map(([id, user]) => [String(id), String(user)]));
    t.same(
      rows.filter(([, , count]) => count !== 1n),
      [],
      'nothing is in it twice',
    );
    const isErased = (id: string) => this.erased.has(`doomed-${id.replace(/-\d+$/, '')}`) && id.endsWith('-0');
    const lost = [...this.acknowledged].filter((id) => !found.has(id) && !isErased(id));
    t.same(lost, [], `nothing of ${this.acknowledged.size} events is lost`);
    const left = [...found.values()].filter((user) => this.erased.has(user));
    t.same(left, [], `nothing of ${this.erased.size} users is left`);
    await another().stop();
    const { files } = await log.state();
    const leftovers = (await log.leftovers()).map(({ name }) => name);
    const known = new Set([...files.map(({ name }) => name), ...leftovers, 'deletions.jsonl']);
    const strays = onDisk().filter((name) => !known.has(name) && !name.startsWith('.work/'));
    t.same(strays, [], 'every file on the disk is known');
  }

  private hear(said: Said): void {
    if ('acknowledged' in said) for (const id of said.acknowledged) this.acknowledged.add(id);
    if ('erasing' in said) this.erasing = said.erasing;
    if ('erased' in said) {
      this.erased.add(said.erased);
      this.erasing = null;
    }
  }
}
