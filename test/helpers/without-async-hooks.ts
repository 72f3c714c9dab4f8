import { registerHooks } from 'node:module';

/*
 * tap follows every promise by async hooks, only to say which test an error belongs to that nobody caught. That takes a third
 * of the tests' time. Without them such an error ends its file, with its stack.
 */
const NO_DOMAIN = `data:text/javascript,${encodeURIComponent('export class Domain { destroy() {} }')}`;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'async-hook-domain' ? { url: NO_DOMAIN, shortCircuit: true } : next(specifier, context),
});
