import { RollcallError } from '../../src/kernel/errors.ts';
import type { Definition, Engine } from './port.ts';

/** Values of variables in SQL, with the variables' names. Engines quote them in errors, which hooks and pages show. */
export type HiddenValues = ReadonlyMap<string, string>;

const RUNNING: ReadonlySet<unknown> = new Set(['stage', 'preview', 'describe'] satisfies (keyof Engine)[]);
/** DuckDB's excerpt of the line, which may hold half a value. */
const EXCERPT = /\n+LINE \d+:[\s\S]*$/;

/** Wraps an engine so that its errors show the names of variables instead of their values. */
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
