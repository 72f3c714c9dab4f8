import { RollcallError } from '../../src/kernel/errors.ts';
import type { Definition, Engine } from './port.ts';

/** Values that variables put into SQL, and the variables' names: engines quote them in errors, which hooks and pages show. */
export type HiddenValues = ReadonlyMap<string, string>;

/** Verbs that run SQL of definitions. */
const RUNNING: ReadonlySet<unknown> = new Set(['stage', 'preview', 'describe'] satisfies (keyof Engine)[]);
/** Where DuckDB quotes a part of the line, which may hold half a value. */
const EXCERPT = /\n+LINE \d+:[\s\S]*$/;

/** The engine, with errors that say the name of a variable in place of what it holds. */
export function hidingValues(engine: Engine, values: HiddenValues): Engine {
  if (values.size === 0) return engine;
  return new Proxy(engine, {
    get(target, name) {
      const verb: unknown = Reflect.get(target, name, target);
      if (typeof verb !== 'function') return verb;
      if (!RUNNING.has(name)) return verb.bind(target);
      return async (definition: Definition, ...rest: readonly unknown[]) => {
        try {
          return await verb.call(target, definition, ...rest);
        } catch (error) {
          throw withoutValues(error, definition, values);
        }
      };
    },
  });
}

function withoutValues(error: unknown, { sql }: Definition, values: HiddenValues): unknown {
  const hidden = [...values].filter(([value]) => sql.includes(value)).sort(([a], [b]) => b.length - a.length);
  if (hidden.length === 0 || !(error instanceof RollcallError)) return error;
  const shown = hidden.reduce(
    (text, [value, name]) => text.replaceAll(value, `\${${name}}`),
    error.message.replace(EXCERPT, ''),
  );
  // Without its cause, which holds the original text.
  return new RollcallError(error.code, shown);
}
