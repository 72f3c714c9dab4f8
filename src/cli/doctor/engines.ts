import { RollcallError } from '../../errors.ts';
import { withoutName } from '../../without-name.ts';
import { count } from '../terminal.ts';
import type { Opened } from '../with-app.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

/** Opens each engine, asks for its state, and runs the definitions as `rollcall plan` does, which leaves no trace. */
export async function* examineEngines({ app, config }: Opened): AsyncGenerator<Finding> {
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
  for (const { key, engine, paused } of [...config.audiences, ...config.traits]) {
    if (paused) continue;
    if (unusable.has(engine)) {
      yield warning(key, `was not tried: it needs the engine ${engine}`);
      continue;
    }
    try {
      const [plan] = await app.sync.plan([key]);
      yield plan?.held
        ? warning(key, `a sync would be held: ${plan.held}`)
        : ok(key, count(plan?.members ?? 0, 'member'));
    } catch (error) {
      if (!(error instanceof RollcallError)) throw error;
      yield failed(key, `${error.code}: ${withoutName(key, error.message)}`);
    }
  }
}
