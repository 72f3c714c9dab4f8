import { literal } from '../../sql/plan-query.ts';
import type { SqlSession } from '../../sql/session.ts';
import { STANDARD, tokensOf } from '../../sql/statement.ts';
import { filesOf } from './tables.ts';

/** Files that SQL names itself: `FROM 'orders.csv'`, `FROM read_json(['a.json', 'b.json'], …)`. */
export interface NamedFile {
  readonly format: 'csv' | 'json' | 'parquet';
  /** Its SQL, as it may follow FROM. */
  readonly call: string;
  /** The arguments after the first. */
  readonly options: readonly string[];
  readonly files: readonly string[];
}

export interface NamedFiles {
  readonly files: readonly NamedFile[];
  /** Lower-case names of the columns that the SQL mentions; null if it takes all (`*`). */
  readonly columns: ReadonlySet<string> | null;
}

const NONE: NamedFiles = { files: [], columns: null };

interface FoundPlace {
  readonly format: NamedFile['format'];
  readonly patterns: readonly string[];
  /** In bytes of the SQL; null for a name in place of a table. */
  readonly at: number | null;
}

/** Finds the files by DuckDB's own parser. SQL that it can't take apart names none. */
export async function namedFiles(session: SqlSession, statement: string): Promise<NamedFiles> {
  if (!/\.(csv|tsv|json|jsonl|ndjson|parquet|gz|zst)\b|\bread_\w+\s*\(/i.test(statement)) return NONE;
  const [[tree] = []] = await session.rows(`SELECT json_serialize_sql(${literal(statement)})`);
  const places: FoundPlace[] = [];
  const columns = new Set<string>();
  let takesAll = false;
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    if (Array.isArray(node)) {
      for (const each of node) visit(each);
      return;
    }
    const { type, class: kind, table_name, function: called, column_names } = node as Record<string, unknown>;
    if (kind === 'STAR') takesAll = true;
    if (kind === 'COLUMN_REF' && Array.isArray(column_names))
      for (const each of column_names) columns.add(String(each).toLowerCase());
    const place =
      type === 'BASE_TABLE' ? bareFile(table_name) : type === 'TABLE_FUNCTION' ? calledReader(called) : null;
    if (place) places.push(place);
    for (const each of Object.values(node)) visit(each);
  };
  visit(JSON.parse(String(tree)));
  const files: NamedFile[] = [];
  for (const { format, patterns, at } of places) {
    const [first = '', ...options] = at === null ? [] : argumentsAt(statement, at);
    const reader = `read_${format}`;
    const call = at === null ? literal(patterns[0] ?? '') : `${reader}(${[first, ...options].join(', ')})`;
    files.push({ format, call, options, files: await filesOf(session, patterns) });
  }
  return { files, columns: takesAll ? null : columns };
}

function bareFile(table: unknown): FoundPlace | null {
  const pattern = String(table);
  const [, ending] = /\.(csv|tsv|json|jsonl|ndjson|parquet)(?:\.gz|\.zst)?$/i.exec(pattern) ?? [];
  if (ending === undefined) return null;
  const format = /sv$/i.test(ending) ? 'csv' : /^p/i.test(ending) ? 'parquet' : 'json';
  return { format, patterns: [pattern], at: null };
}

const READER = /^(?:read_(csv|json|ndjson|parquet)(?:_auto)?|parquet_scan)$/i;

function calledReader(called: unknown): FoundPlace | null {
  const { function_name, children, query_location } = called as Record<string, unknown>;
  const [found, reader = 'parquet'] = READER.exec(String(function_name)) ?? [];
  if (found === undefined || !Array.isArray(children)) return null;
  const patterns = textsIn(children[0]);
  if (patterns.length === 0) return null;
  const format = reader === 'csv' || reader === 'parquet' ? reader : 'json';
  return { format, patterns, at: Number(query_location) };
}

/** The text of a constant, or the texts of a list of them. */
function textsIn(node: unknown): readonly string[] {
  const { class: kind, value, children } = node as Record<string, unknown>;
  if (kind === 'CONSTANT') {
    const { value: text } = value as Record<string, unknown>;
    return typeof text === 'string' ? [text] : [];
  }
  return kind === 'FUNCTION' && Array.isArray(children) ? children.flatMap(textsIn) : [];
}

/** The arguments of the call at this place, as they are written. */
function argumentsAt(statement: string, at: number): readonly string[] {
  const given: string[] = [];
  let depth = 0;
  let text = '';
  for (const token of tokensOf(Buffer.from(statement).subarray(at).toString(), STANDARD)) {
    if (depth > 0 && !(depth === 1 && /^[),]$/.test(token.text))) text += token.text;
    if (depth === 1 && /^[),]$/.test(token.text)) {
      given.push(text.trim());
      text = '';
    }
    if (/^[([{]$/.test(token.text)) depth += 1;
    if (/^[)\]}]$/.test(token.text)) depth -= 1;
    if (depth === 0 && token.text === ')') break;
  }
  return given;
}
