import type { SqlSession } from './session.ts';

/** Parts the texts of a column, which becomes one long text: a value alone costs more than its row. */
const BREAK = '\n';
const ESCAPE = '\u001b';

/** A column of text that is cast to its type as it is written. */
export interface RowColumn {
  readonly name: string;
  readonly type: string;
}

/** Adds rows, given by column, to a table. */
async function insertTexts(
  session: SqlSession,
  table: string,
  columns: readonly RowColumn[],
  packed: readonly string[],
): Promise<void> {
  const lists = packed.map((text, place) => {
    const list = `unnest(string_to_array(given[${place + 1}], chr(10))) AS text${place}`;
    return {
      list,
      value: text.includes(ESCAPE)
        ? `replace(replace(text${place}, chr(27) || 'n', chr(10)), chr(27) || '-', chr(27))`
        : `text${place}`,
    };
  });
  const values = columns.map(({ type }, place) => `CAST(nullif(${lists[place]?.value}, '') AS ${type})`);
  await session.rows(
    `INSERT INTO ${table} (${columns.map(({ name }) => name).join(', ')}) SELECT ${values.join(', ')}
     FROM (SELECT ${lists.map(({ list }) => list).join(', ')} FROM (SELECT $1::varchar[] AS given) AS parameters) AS texts`,
    packed,
  );
}

const escaped = (text: string) => text.replaceAll(ESCAPE, `${ESCAPE}-`);

function pack(texts: readonly string[]): string {
  const isPlain = texts.every((text) => !text.includes(BREAK));
  return isPlain
    ? escaped(texts.join(BREAK))
    : texts.map((text) => escaped(text).replaceAll(BREAK, `${ESCAPE}n`)).join(BREAK);
}

/** Rows that are written at once: by number, and by the characters of their texts. */
const ROWS = 20_000;
const CHARACTERS = 4_000_000;

/**
 * Collects rows and adds them to a table, many at once. An empty text is null. The first column must have none: Postgres
 * makes no list of a single empty text.
 */
export class TextRows {
  private readonly session: SqlSession;
  private readonly table: string;
  private readonly columns: readonly RowColumn[];
  /** Packed texts of each column. */
  private parts: string[][];
  private rows = 0;
  private characters = 0;

  constructor(session: SqlSession, table: string, columns: readonly RowColumn[]) {
    this.session = session;
    this.table = table;
    this.columns = columns;
    this.parts = columns.map(() => []);
  }

  /** @param texts - by column; a column that has no line breaks may be one text, which they part */
  add(texts: readonly (readonly string[] | string)[], rows: number): void {
    if (rows === 0) return;
    this.rows += rows;
    for (const [place, each] of texts.entries()) {
      const packed = typeof each === 'string' ? escaped(each) : pack(each);
      this.parts[place]?.push(packed);
      this.characters += packed.length;
    }
  }

  get isFull(): boolean {
    return this.rows >= ROWS || this.characters >= CHARACTERS;
  }

  async write(): Promise<void> {
    if (this.rows === 0) return;
    const { parts } = this;
    this.parts = this.columns.map(() => []);
    this.rows = 0;
    this.characters = 0;
    await insertTexts(
      this.session,
      this.table,
      this.columns,
      parts.map((each) => each.join(BREAK)),
    );
  }
}
