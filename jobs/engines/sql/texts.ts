import type { SqlSession } from './session.ts';

/** Ends each text of a column, which becomes one long text: a value alone costs more than its row. */
const BREAK = '\n';
const ESCAPE = '\u001b';

/** A column of text that is cast to its type as it is written. */
export interface RowColumn {
  readonly name: string;
  readonly type: string;
}

/**
 * Adds rows, given by column, to a table. An empty text is null. The first column must have none: Postgres makes no list
 * of a single empty text.
 */
async function insertTexts(
  session: SqlSession,
  table: string,
  columns: readonly RowColumn[],
  texts: readonly (readonly string[])[],
): Promise<void> {
  const packed = texts.map(pack);
  const lists = packed.map(({ isEscaped }, place) => {
    const list = `unnest(string_to_array(given[${place + 1}], chr(10))) AS text${place}`;
    return {
      list,
      value: isEscaped
        ? `replace(replace(text${place}, chr(27) || 'n', chr(10)), chr(27) || '-', chr(27))`
        : `text${place}`,
    };
  });
  const values = columns.map(({ type }, place) => `CAST(nullif(${lists[place]?.value}, '') AS ${type})`);
  await session.rows(
    `INSERT INTO ${table} (${columns.map(({ name }) => name).join(', ')}) SELECT ${values.join(', ')}
     FROM (SELECT ${lists.map(({ list }) => list).join(', ')} FROM (SELECT $1::varchar[] AS given) AS parameters) AS texts`,
    packed.map(({ text }) => text),
  );
}

function pack(texts: readonly string[]): { readonly text: string; readonly isEscaped: boolean } {
  const isEscaped = texts.some((text) => text.includes(BREAK) || text.includes(ESCAPE));
  const escaped = (text: string) => text.replaceAll(ESCAPE, `${ESCAPE}-`).replaceAll(BREAK, `${ESCAPE}n`);
  return { text: (isEscaped ? texts.map(escaped) : texts).join(BREAK), isEscaped };
}

/** Rows that are written at once: by number, and by the characters of their texts. */
const ROWS = 20_000;
const CHARACTERS = 4_000_000;

/** Collects rows and adds them to a table, many at once. */
export class TextRows {
  private readonly session: SqlSession;
  private readonly table: string;
  private readonly columns: readonly RowColumn[];
  private texts: string[][];
  private characters = 0;

  constructor(session: SqlSession, table: string, columns: readonly RowColumn[]) {
    this.session = session;
    this.table = table;
    this.columns = columns;
    this.texts = columns.map(() => []);
  }

  add(texts: readonly string[]): void {
    for (const [place, text] of texts.entries()) {
      this.texts[place]?.push(text);
      this.characters += text.length;
    }
  }

  get isFull(): boolean {
    return (this.texts[0]?.length ?? 0) >= ROWS || this.characters >= CHARACTERS;
  }

  async write(): Promise<void> {
    const texts = this.texts;
    if (texts[0]?.length === 0) return;
    this.texts = this.columns.map(() => []);
    this.characters = 0;
    await insertTexts(this.session, this.table, this.columns, texts);
  }
}
