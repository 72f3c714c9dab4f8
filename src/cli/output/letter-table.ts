import type { DeadLetter } from '../../store/port.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

const HEADER = ['id', 'destination', 'type', 'user', 'reason', 'status', 'attempts', 'last'];

export function letterTable(
  letters: readonly DeadLetter[],
  withBody: boolean | undefined,
  { stdout }: Pick<Terminal, 'stdout'>,
): string {
  const rows = letters.map((letter) => [
    letter.id,
    letter.destination,
    letter.type,
    letter.userId ?? '-',
    letter.reason,
    String(letter.status ?? '-'),
    String(letter.attempts),
    new Date(letter.lastAt).toISOString(),
    ...(withBody ? [letter.body] : []),
  ]);
  const flexible = ['user', 'body', 'destination'];
  return table([...HEADER, ...(withBody ? ['body'] : [])], rows, { width: stdout.columns, flexible });
}
