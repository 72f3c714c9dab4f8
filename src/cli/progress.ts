import cliProgress from 'cli-progress';
import type { Progress } from '../../jobs/index.ts';
import type { Terminal } from './terminal.ts';

/** Shows how far long work is; silent where nobody watches. */
export interface ProgressView {
  /** A run's messages on their way to the store. */
  readonly onProgress: (progress: Progress) => void;
  /** Anything else that is counted. */
  show(name: string, done: number, total: number): void;
  stop(): void;
}

const SILENT: ProgressView = { onProgress() {}, show() {}, stop() {} };

export function createProgress({ stderr }: Terminal): ProgressView {
  if (stderr.isTTY !== true) return SILENT;
  const bars = new cliProgress.MultiBar(
    { stream: stderr, clearOnComplete: true, hideCursor: true, format: '{name} {bar} {percentage}% {value}/{total}' },
    cliProgress.Presets.shades_classic,
  );
  const shown = new Map<string, cliProgress.SingleBar>();
  const show = (name: string, done: number, total: number) => {
    const bar = shown.get(name) ?? bars.create(total, done, { name });
    shown.set(name, bar);
    bar.setTotal(total);
    bar.update(done);
  };
  return {
    onProgress: ({ key, phase, done, total }) => {
      if (phase === 'send' && total !== null) show(`${key}: queued`, done, total);
    },
    show,
    stop: () => bars.stop(),
  };
}
