/** Rows per page. With --json no more than these are in memory, whatever the limit. */
const ROWS = 1_000;

interface Page<Row, Cursor> {
  /** May be few or none even if more follow. */
  readonly rows: readonly Row[];
  /** Null after the last page. */
  readonly next: Cursor | null;
}

/**
 * Show rows page by page, up to a limit.
 *
 * @returns the number shown, and true if there are more
 */
export async function eachPage<Row, Cursor>(
  limit: number,
  ask: (rows: number, cursor: Cursor | null) => Promise<Page<Row, Cursor>>,
  show: (rows: readonly Row[]) => void | Promise<void>,
  signal: AbortSignal,
): Promise<{ readonly shown: number; readonly isMore: boolean }> {
  let shown = 0;
  for (let cursor: Cursor | null = null; !signal.aborted; ) {
    // Ask for one more than is shown, to see if there are more.
    const page = await ask(Math.min(ROWS, limit - shown + 1), cursor);
    const rows = page.rows.slice(0, limit - shown);
    if (rows.length > 0) await show(rows);
    shown += rows.length;
    if (page.rows.length > rows.length) return { shown, isMore: true };
    cursor = page.next;
    if (cursor === null) break;
  }
  return { shown, isMore: false };
}
