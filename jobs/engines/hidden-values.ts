import { RollcallError } from '../../src/kernel/errors.ts';
import { withoutData } from './data-in-errors.ts';
import type { Definition, Engine } from './port.ts';

/** Values of variables in SQL, with the variables' names. Engines quote them in errors, which hooks and pages show. */
export type HiddenValues = ReadonlyMap<string, string>;

/** Codes of errors that name the value of a file. A person who asks for a plan may see it, but errors of runs are kept. */
const OF_FILES: readonly string[] = ['file_differs', 'types_guessed'];
/** Codes of errors whose texts are the engine's. */
const ITS_TEXT: ReadonlySet<string> = new Set(['sql_failed', 'source_incomplete', 'engine_failed', ...OF_FILES]);
/** The excerpt of a line, which may hold half a value. */
const EXCERPT = /\n+LINE \d+: .*\n *\^/;

/** Wraps an engine so that its errors show no data, and the names of variables instead of their values. */
export function hidingValues(engine: Engine, values: HiddenValues): Engine {
  return new Proxy(engine, {
    get(target, name) {
      const verb: unknown = Reflect.get(target, name, target);
      if (typeof verb !== 'function') return verb;
      return (...given: readonly unknown[]) => {
        const result: unknown = verb.apply(target, given);
        if (!(result instanceof Promise)) return result;
        const [{ sql = '' } = {}] = given as readonly Partial<Definition>[];
        return result.catch((error) => {
          const isShown = name !== 'stage' && error instanceof RollcallError && OF_FILES.includes(error.code);
          throw isShown ? error : withoutValues(error, sql, values);
        });
      };
    },
  });
}

function withoutValues(error: unknown, sql: string, values: HiddenValues): unknown {
  if (!(error instanceof RollcallError && ITS_TEXT.has(error.code))) return error;
  const hidden = [...values].filter(([value]) => sql.includes(value)).sort(([a], [b]) => b.length - a.length);
  const shown = (text: string) =>
    hidden.reduce((text, [value, name]) => text.replaceAll(value, `\${${name}}`), withoutData(text, sql));
  const [excerpt = ''] = EXCERPT.exec(error.message) ?? [];
  const [before = '', after = ''] = excerpt === '' ? [error.message] : error.message.split(excerpt, 2);
  // Without its cause, which holds the original text.
  return new RollcallError(error.code, shown(before) + (hidden.length === 0 ? excerpt : '') + shown(after));
}
