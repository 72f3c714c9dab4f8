import type { AckOptions, CoreOptions } from '../options.ts';

const receiving: Readonly<Record<keyof CoreOptions | keyof AckOptions, true>> = {
  secret: true,
  on: true,
  signing: true,
  maxAge: true,
  bodyLimit: true,
  hints: true,
  deadline: true,
  ack: true,
  store: true,
  name: true,
  test: true,
  concurrency: true,
  stuckAfter: true,
  drain: true,
  clock: true,
};
/** Options of single hosts, and those of Fastify for every plugin. */
const hosting = ['log', 'path', 'prefix', 'logLevel', 'logSerializers'];
const known = [...Object.keys(receiving), ...hosting];

/**
 * Finds misspelt options, which JavaScript would ignore. Receivers and verifiers may share their options.
 *
 * @throws TypeError naming the option
 */
export function checkOptionNames(options: object): void {
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) throw new TypeError(`${wrong} is not an option: give ${known.join(', ')}`);
}
