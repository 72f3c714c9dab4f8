import { format } from 'node:util';

const enabled = (process.env['DEBUG'] ?? '').split(/[\s,]+/).some((name) => name === 'analytics' || name === '*');

/** Prints to stderr when the environment variable DEBUG names `analytics`. */
export const log = Object.assign(
  (text: string, ...values: readonly unknown[]) => {
    if (enabled) process.stderr.write(`${new Date().toISOString()} analytics ${format(text, ...values)}\n`);
  },
  { enabled },
);
