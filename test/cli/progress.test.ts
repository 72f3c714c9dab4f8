import { Writable } from 'node:stream';
import t from 'tap';
import type { Progress } from '../../jobs/index.ts';
import { createProgress } from '../../src/cli/output/progress.ts';
import { ManualClock } from '../helpers/clock.ts';

/** The output, for people on a terminal or for a file. */
function createTerminal(isTTY: boolean) {
  let text = '';
  let told = () => {};
  const stderr = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
      told();
    },
  });
  const terminal = { stdout: stderr, stderr: Object.assign(stderr, { isTTY }), signal: new AbortController().signal };
  return {
    terminal,
    /** The output since it was last taken. */
    take() {
      const taken = text;
      text = '';
      return taken;
    },
    /** Resolves once this is written. */
    async wrote(pattern: RegExp) {
      while (!pattern.test(text)) await new Promise<void>((resolve) => (told = resolve));
    },
  };
}

const step = (phase: Progress['phase'], done: number, total: number | null) => ({
  run: 'r1',
  key: 'club',
  phase,
  done,
  total,
});

t.test('prints long work every ten seconds with rate and remaining time, without a terminal', async (t) => {
  const clock = new ManualClock();
  const { terminal, take } = createTerminal(false);
  const progress = createProgress(terminal, clock);
  progress.onProgress(step('stage', 0, null));
  clock.advance(9_999);
  t.equal(take(), '', 'short work needs no words');
  clock.advance(1);
  t.equal(take(), 'club: computing for 10s\n');
  progress.onProgress(step('send', 5_000, 65_000));
  clock.advance(5_000);
  progress.onProgress(step('send', 15_000, 65_000));
  clock.advance(5_000);
  t.equal(take(), 'club: queued 15000/65000, 1000/s, 50s left\n', 'counted from where it began');
  progress.onProgress(step('done', 65_000, 65_000));
  progress.show('tried', 0, 10);
  clock.advance(10_000);
  t.equal(take(), 'tried 0/10\n', 'without a rate there is no guess');
  progress.show('tried', 1, 10);
  clock.advance(10_000);
  t.equal(take(), 'tried 1/10\n', 'nor with one that rounds to none');
  progress.stop();
  clock.advance(10_000);
  t.equal(take(), '');
});

t.test('prints no line for work that has just begun', async (t) => {
  const clock = new ManualClock();
  const { terminal, take } = createTerminal(false);
  const progress = createProgress(terminal, clock);
  clock.advance(9_000);
  progress.onProgress(step('stage', 0, null));
  clock.advance(1_000);
  t.equal(take(), '');
  clock.advance(10_000);
  t.equal(take(), 'club: computing for 11s\n');
  progress.stop();
});

t.test('shows a bar for each step on a terminal, and removes it after the step', async (t) => {
  const clock = new ManualClock();
  const { terminal, take, wrote } = createTerminal(true);
  const progress = createProgress(terminal, clock);
  progress.onProgress(step('stage', 0, null));
  await wrote(/club: computing \ds/);
  progress.onProgress(step('send', 5_000, 65_000));
  await wrote(/club: queued /);
  take();
  clock.advance(5_000);
  progress.onProgress(step('send', 15_000, 65_000));
  await wrote(/club: queued .*23% 15000\/65000, 2000\/s, 25s left/);
  t.notMatch(take(), 'computing');
  progress.stop();
});

t.test('shows what a run waits for, until it continues', async (t) => {
  const clock = new ManualClock();
  const { terminal, take } = createTerminal(false);
  const progress = createProgress(terminal, clock);
  progress.onProgress({ ...step('wait', 0, null), waitsFor: ['crm', 'mail'] });
  clock.advance(10_000);
  t.equal(take(), 'club: waiting for crm, mail (queue is full) for 10s\n');
  progress.onProgress({ ...step('wait', 0, null), storeError: 'store_full' });
  clock.advance(10_000);
  t.equal(take(), 'club: waiting for the store (store_full) for 10s\n');
  progress.onProgress(step('done', 0, 0));
  clock.advance(10_000);
  t.equal(take(), '');
  progress.stop();
});
