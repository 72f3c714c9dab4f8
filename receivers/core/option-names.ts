import type { AckOptions, CoreOptions, VerifyOptions } from '../options.ts';

type Names<T> = Readonly<Record<T extends unknown ? keyof T : never, true>>;

const verifying: Names<VerifyOptions> = {
  secret: true,
  signing: true,
  maxAge: true,
  bodyLimit: true,
  hints: true,
  deadline: true,
  clock: true,
};
const receiving: Names<Omit<CoreOptions, keyof VerifyOptions> & AckOptions> = {
  on: true,
  ack: true,
  store: true,
  name: true,
  concurrency: true,
  stuckAfter: true,
  drain: true,
};
/** Options of single hosts, and those of Fastify for every plugin. */
const hosting = ['log', 'path', 'prefix', 'logLevel', 'logSerializers'];

export const VERIFYING: readonly string[] = [...Object.keys(verifying), ...hosting];
export const RECEIVING: readonly string[] = [...Object.keys(receiving), ...VERIFYING];

/**
 * Finds misspelt options, which JavaScript would ignore.
 *
 * @throws TypeError naming the option
 */
export function checkOptionNames(options: object, known: readonly string[]): void {
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) throw new TypeError(`${wrong} is not an option: give ${known.join(', ')}`);
}
