import type { SyncReport } from '../../jobs/index.ts';
import type { CliContext } from './context.ts';
import { createProgress } from './output/progress.ts';
import { reportRuns, TOLD } from './output/report-runs.ts';
import { type AppCommandOptions, type OpenedApp, withApp } from './with-app.ts';

/**
 * Carry out an order for one audience, deliver its messages, and report it as a sync does. `work` returns null if nothing
 * was done.
 *
 * @param afterwards - prints notes after the report
 */
export async function order(
  options: AppCommandOptions,
  context: CliContext,
  work: (opened: OpenedApp) => Promise<SyncReport | null>,
  afterwards: (report: SyncReport, opened: OpenedApp) => void = () => {},
): Promise<void> {
  const { terminal } = context;
  const progress = createProgress(terminal);
  try {
    await withApp(options, { terminal, untold: TOLD, onProgress: progress.onProgress }, async (opened) => {
      await opened.app.start({ collect: false, schedules: false });
      const report = await work(opened);
      if (!report) return;
      await reportRuns([report], opened, progress, options, context);
      afterwards(report, opened);
    });
  } finally {
    progress.stop();
  }
}
