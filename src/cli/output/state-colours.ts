import { hasColours, painter, type Terminal } from './terminal.ts';

const GOOD = new Set(['open', 'done', 'ok', 'enabled', 'success', 'delivered', 'FINISHED']);
const WAITING = new Set([
  'held',
  'paused',
  'refusing',
  'warning',
  'retry',
  'staged',
  'sending',
  'committed',
  'overdue',
  'PARTIAL_SUCCESS',
]);
const BAD = new Set([
  'dead',
  'failed',
  'FAILED',
  'refused',
  'tls_untrusted',
  'address_refused',
  'orphaned',
  'not configured',
]);

export function stateColours(terminal: Pick<Terminal, 'stdout'>): (state: string, text?: string) => string {
  const { green, yellow, red, dim } = painter(hasColours(terminal.stdout));
  return (state, text = state) => {
    if (GOOD.has(state)) return green(text);
    if (WAITING.has(state)) return yellow(text);
    return BAD.has(state) ? red(text) : dim(text);
  };
}
