import { RollcallError } from '../../kernel/errors.ts';
import { withoutName } from '../../kernel/without-name.ts';
import { howPaused } from '../output/paused-since.ts';
import { count } from '../output/terminal.ts';
import type { OpenedApp } from '../with-app.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

/** Open each engine, read its state, and run the definitions as `rollcall plan` does, without writing anything. */
export async function* examineEngines({ app, config }: OpenedApp): AsyncGenerator<Finding> {
  const unusable = new Set<string>();
  for (const name of Object.keys(config.engines)) {
    const check = `engine ${name}`;
    try {
      for (const remark of await app.sync.examine(name)) yield { check, ...remark };
    } catch (error) {
      if (!(error instanceof RollcallError)) throw error;
      unusable.add(name);
      yield failed(check, `${error.code}: ${error.message}`);
    }
  }
  const pauses = await app.store.pausedAudiences();
  for (const { key, engine } of [...config.audiences, ...config.traits]) {
    const pause = pauses.find((each) => each.key === key) ?? null;
    const finding = unusable.has(engine)
      ? warning(key, `was not tried: it needs the engine ${engine}`)
      : await tryDefinition(key, app);
    const paused = howPaused(key, config, pause);
    yield paused === null ? finding : { ...finding, message: `${paused}; ${finding.message}` };
  }
}

async function tryDefinition(key: string, { sync }: OpenedApp['app']): Promise<Finding> {
  try {
    const [plan] = await sync.plan([key]);
    if (plan?.held) return warning(key, `a sync would be held: ${plan.held}`);
    const { members = 0, first = false } = plan ?? {};
    if (first && members === 0) return warning(key, 'a first sync would find nobody: check what its engine sees');
    return ok(key, count(members, 'member'));
  } catch (error) {
    if (!(error instanceof RollcallError)) throw error;
    return failed(key, `${error.code}: ${withoutName(key, error.message)}`);
  }
}
