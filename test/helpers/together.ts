import './bundled-threads.ts';
import './kept-threads.ts';
import './own-colours.ts';
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { disarmFailpoint } from '../../src/kernel/failpoint.ts';

const TESTS = resolve(import.meta.dirname, '..');
/** Longest run of one file, in milliseconds. A machine whose processor is shared may take several times as long as usual. */
const TIMEOUT = 1_190_000;

/**
 * Runs test files one after the other in this process: loading the service and warming it up takes longer than most of them.
 * Each has a test of its own, in which its tests stand, with its own teardowns and limits; `import t from 'tap'` is that test.
 *
 * @param files - as `deliver/window.test.ts`
 */
export async function runTogether(files: readonly string[], timeout = TIMEOUT): Promise<void> {
  t.setTimeout(timeout);
  for (const file of files) {
    await t.test(`test/${file}`, { timeout }, async (t) => {
      t.teardown(asItWas());
      const url = pathToFileURL(resolve(TESTS, file)).href;
      roots.set(url, t);
      await import(url);
    });
  }
}

/** Gives the next file the working directory and the environment that this one found, and no armed failpoint. */
function asItWas(): () => void {
  const folder = process.cwd();
  const env = { ...process.env };
  return () => {
    disarmFailpoint();
    process.chdir(folder);
    for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
    Object.assign(process.env, env);
  };
}

const roots = new Map<string, Test>();
/** Where the module finds it that stands in for tap. */
const PLACE = Symbol.for('rollcall.roots');
Object.assign(globalThis, { [PLACE]: roots });

registerHooks({
  resolve(specifier, context, next) {
    const { parentURL = '' } = context;
    if (specifier !== 'tap' || !roots.has(parentURL)) return next(specifier, context);
    const code = `export default globalThis[Symbol.for(${JSON.stringify(PLACE.description)})].get(${JSON.stringify(parentURL)})`;
    return { url: `data:text/javascript,${encodeURIComponent(code)}`, shortCircuit: true };
  },
});
