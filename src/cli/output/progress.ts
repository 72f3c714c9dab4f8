import cliProgress from 'cli-progress';
import type { Progress } from '../../../jobs/index.ts';
import { type Clock, systemClock } from '../../kernel/clock.ts';
import { duration } from './duration.ts';
import { note, type Terminal } from './terminal.ts';

const LINE_EVERY = 10_000;
/** Milliseconds of work before it gets a line. */
const WORTH_SAYING = 2_000;

export interface ProgressView {
  readonly onProgress: (progress: Progress) => void;
  /** Shows other work that is counted. */
  show(name: string, done: number, total: number): void;
  stop(): void;
}

/** For --quiet. */
export const NO_PROGRESS: ProgressView = { onProgress() {}, show() {}, stop() {} };

export async function withProgress<T>(
  terminal: Terminal,
  work: (show: ProgressView['show']) => Promise<T>,
): Promise<T> {
  const progress = createProgress(terminal);
  try {
    return await work(progress.show);
  } finally {
    progress.stop();
  }
}

/** Shows pieces of work. The total is null while it is not known. */
interface Display {
  update(name: string, done: number, total: number | null): void;
  remove(name: string): void;
  stop(): void;
}

export function createProgress(terminal: Terminal, clock = systemClock): ProgressView {
  const display = terminal.stderr.isTTY === true ? createBars(terminal, clock) : createLines(terminal, clock);
  const waits = new Map<string, string>();
  return {
    onProgress({ key, phase, done, total, ...obstacle }) {
      const staging = `${key}: computing`;
      const sending = `${key}: queued`;
      if (phase === 'stage') display.update(staging, 0, null);
      else display.remove(staging);
      const waiting = waits.get(key);
      const now = phase === 'wait' ? `${key}: waiting for ${obstacleText(obstacle)}` : undefined;
      if (waiting !== undefined && waiting !== now) display.remove(waiting);
      if (now === undefined) waits.delete(key);
      else {
        waits.set(key, now);
        display.update(now, 0, null);
      }
      if (phase === 'send') display.update(sending, done, total);
      if (phase === 'done') display.remove(sending);
    },
    show: display.update,
    stop: display.stop,
  };
}

function obstacleText({ waitsFor = [], storeError }: Pick<Progress, 'waitsFor' | 'storeError'>): string {
  return storeError === undefined ? `${waitsFor.join(', ')} (queue is full)` : `the store (${storeError})`;
}

function createBars({ stderr }: Terminal, clock: Clock): Display {
  const bars = new cliProgress.MultiBar(
    {
      stream: stderr,
      clearOnComplete: true,
      hideCursor: true,
      format: '{name} {bar} {percentage}% {value}/{total}{pace}',
    },
    cliProgress.Presets.shades_classic,
  );
  const shown = new Map<string, { readonly bar: cliProgress.SingleBar; readonly pace: Pace }>();
  const create = (name: string, done: number, total: number | null) => {
    const format = total === null ? { format: '{name} {duration_formatted}' } : {};
    const bar = bars.create(total ?? 1, done, { name, pace: '' }, format);
    const item = { bar, pace: measurePace(clock, done) };
    shown.set(name, item);
    return item;
  };
  return {
    update(name, done, total) {
      const { bar, pace } = shown.get(name) ?? create(name, done, total);
      if (total === null) return;
      bar.setTotal(total);
      bar.update(done, { pace: pace(done, total) });
    },
    remove(name) {
      const item = shown.get(name);
      if (item) bars.remove(item.bar);
      shown.delete(name);
    },
    stop: () => bars.stop(),
  };
}

/** Long work prints a line every ten seconds. */
function createLines(terminal: Terminal, clock: Clock): Display {
  const items = new Map<string, { done: number; total: number | null; readonly since: number; readonly pace: Pace }>();
  const tell = () => {
    for (const [name, { done, total, since, pace }] of items) {
      if (clock.monotonic() - since < WORTH_SAYING) continue;
      if (total === null) note(terminal, `${name} for ${duration(clock.monotonic() - since)}`);
      else note(terminal, `${name} ${done}/${total}${pace(done, total)}`);
    }
    cancel = clock.after(LINE_EVERY, tell);
  };
  let cancel = clock.after(LINE_EVERY, tell);
  return {
    update(name, done, total) {
      const item = items.get(name) ?? { done, total, since: clock.monotonic(), pace: measurePace(clock, done) };
      items.set(name, Object.assign(item, { done, total }));
    },
    remove: (name) => void items.delete(name),
    stop: () => cancel(),
  };
}

/** Rate and remaining time in words; empty without a rate, as while everything left waits for a retry. */
type Pace = (done: number, total: number) => string;

function measurePace(clock: Clock, from: number): Pace {
  const since = clock.monotonic();
  return (done, total) => {
    const perMs = (done - from) / (clock.monotonic() - since);
    const perSecond = Math.round(perMs * 1_000);
    if (!(perSecond > 0) || perSecond === Number.POSITIVE_INFINITY) return '';
    return `, ${perSecond}/s, ${duration(Math.ceil((total - done) / perMs))} left`;
  };
}
