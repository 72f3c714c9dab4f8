import { stripVTControlCharacters } from 'node:util';
import { painter } from '../../src/cli/output/terminal.ts';

const NAMES_SHOWN = 3;
const QUIET = 150;

/** Prints lines for people, or with `json` for scripts; what many users have in common becomes one line. */
export function createBoard(print: (line: string) => void, json = false, isColoured = false) {
  const paint = painter(isColoured);
  const groups = new Map<string, Verified[]>();
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    for (const [what, users] of groups) {
      const more = users.length > NAMES_SHOWN ? `, and ${users.length - NAMES_SHOWN} more` : '';
      const names = `${users
        .slice(0, NAMES_SHOWN)
        .map(({ user }) => user)
        .join(', ')}${more}`;
      line(
        'verified',
        paint.green(`✓ ${String(users.length).padStart(3)} ${what}: `) + paint.dim(names) + afterOrder(users),
      );
    }
    groups.clear();
  }

  function line(who: string, text: string): void {
    if (json) {
      print(JSON.stringify({ who, text: stripVTControlCharacters(text) }));
      return;
    }
    const time = new Date().toTimeString().slice(0, 8);
    print(`${paint.dim(time)}  ${paint.bold(who.padEnd(9))} ${text}`);
  }

  return {
    say: line,
    /**
     * A verified webhook; shown once no more have come for a moment.
     *
     * @param seconds - since the user's last order while the shop ran; null if there was none
     */
    verified(what: string, user: string, seconds: number | null): void {
      const users = groups.get(what) ?? [];
      groups.set(what, [...users, { user, seconds }]);
      clearTimeout(timer);
      timer = setTimeout(flush, QUIET);
    },
    /** Shows at once what has been verified so far. */
    flush,
  };
}

interface Verified {
  readonly user: string;
  readonly seconds: number | null;
}

/** Of several, the slowest. */
function afterOrder(users: readonly Verified[]): string {
  const seconds = users.flatMap(({ seconds }) => seconds ?? []);
  return seconds.length === 0 ? '' : `, ${Math.max(...seconds).toFixed(2)} s after the order`;
}

/** `1 webhook`, `2 webhooks`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

export type Board = ReturnType<typeof createBoard>;
