import { registerHooks } from 'node:module';

/*
 * tap follows every promise, only to say which test an error belongs to that nobody caught, and every module that a process
 * or its children load, only for coverage, which is off. The first takes a third of the tests' time, the second a quarter
 * of a second for each process. Without them such an error ends its file, with its stack.
 */
const NOTHING = 'data:text/javascript,';
const NO_DOMAIN = `${NOTHING}${encodeURIComponent('export class Domain { destroy() {} }')}`;

/*
 * tap removes a test's folder before its teardowns if the test made the folder first: services that a teardown closes would still
 * write there. With a teardown from the start, the folder is the last to go.
 */
const teardownsFirst = (url: string) =>
  `${NOTHING}${encodeURIComponent(`
  import { plugin as made } from ${JSON.stringify(url)};
  export const plugin = (t) => {
    const after = made(t);
    after.teardown(() => {});
    return after;
  };
`)}`;

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'async-hook-domain') return { url: NO_DOMAIN, shortCircuit: true };
    if (specifier.endsWith('/@tapjs/processinfo/dist/esm/import.mjs')) return { url: NOTHING, shortCircuit: true };
    const found = next(specifier, context);
    if (specifier !== '@tapjs/after') return found;
    return { url: teardownsFirst(found.url), shortCircuit: true };
  },
});

// It stands there because that is read before tap's own preloads. The programs that tests start are to run as they are.
delete process.env['NODE_OPTIONS'];
