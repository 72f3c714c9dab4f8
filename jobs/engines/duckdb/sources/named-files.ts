import { literal } from '../../sql/plan-query.ts';
import type { SqlSession } from '../../sql/session.ts';
import { STANDARD, tokensOf } from '../../sql/statement.ts';
import { filesOf } from './tables.ts';

/** Files that SQL names itself: `FROM 'orders.csv'`, `FROM read_json(['a.json', 'b.json'], …)`. */
export interface NamedFile {
  readonly format: 'csv' | 'json' | 'parquet';
  /** SQL that may follow FROM. */
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

interface FoundPlace {
  readonly format: NamedFile['format'];
  readonly patterns: readonly string[];
  /** In bytes of the SQL; null for a name in place of a table. */
  readonly at: number | null;
}

/** SQL that a definition consists of: its own, and that of a view or macro. */
interface Part {
  readonly text: string;
  /** True for the SQL of a view that names no columns of its own: its `*` takes those that other SQL names. */
  readonly passesOn: boolean;
}

/** More parts than people write. */
const MOST_PARTS = 100;

/** Finds the files by DuckDB's own parser, in views and macros too. SQL that it can't take apart names none. */
export async function namedFiles(session: SqlSession, statement: string): Promise<NamedFiles> {
  const parts: Part[] = [{ text: statement, passesOn: false }];
  const files: NamedFile[] = [];
  const columns = new Set<string>();
  let takesAll = false;
  for (const part of parts.values()) {
    const { places, tables, calls, ...found } = await namedIn(session, part.text);
    for (const each of found.columns) columns.add(each);
    takesAll ||= found.takesAll && !part.passesOn;
    for (const { format, patterns, at } of places) {
      const [first = '', ...options] = at === null ? [] : argumentsAt(part.text, at);
      const reader = `read_${format}`;
      const call = at === null ? literal(patterns[0] ?? '') : `${reader}(${[first, ...options].join(', ')})`;
      files.push({ format, call, options, files: await filesOf(session, patterns) });
    }
    for (const each of [...(await viewsOf(session, tables)), ...(await macrosOf(session, part.text, calls))]) {
      const isNew = parts.every(({ text }) => text !== each.text);
      if (isNew && parts.length < MOST_PARTS) parts.push(each);
    }
  }
  return { files, columns: takesAll ? null : columns };
}

interface NamedInPart {
  readonly places: FoundPlace[];
  readonly columns: Set<string>;
  takesAll: boolean;
  readonly tables: Set<string>;
  /** Functions by name, with their places in bytes of the SQL. */
  readonly calls: Map<string, number>;
}

async function namedIn(session: SqlSession, text: string): Promise<NamedInPart> {
  const named: NamedInPart = { places: [], columns: new Set(), takesAll: false, tables: new Set(), calls: new Map() };
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    if (Array.isArray(node)) {
      for (const each of node) visit(each);
      return;
    }
    const { type, class: kind, table_name, function: called, column_names, ...rest } = node as Record<string, unknown>;
    if (kind === 'STAR') named.takesAll = true;
    if (kind === 'COLUMN_REF' && Array.isArray(column_names))
      for (const each of column_names) named.columns.add(String(each).toLowerCase());
    if (kind === 'FUNCTION')
      named.calls.set(String(rest['function_name']).toLowerCase(), Number(rest['query_location']));
    const file = type === 'BASE_TABLE' ? bareFile(table_name) : null;
    const place = type === 'TABLE_FUNCTION' ? calledReader(called) : file;
    if (place) named.places.push(place);
    else if (type === 'BASE_TABLE') named.tables.add(String(table_name).toLowerCase());
    for (const each of Object.values(node)) visit(each);
  };
  const [[tree] = []] = await session.rows(`SELECT json_serialize_sql(${literal(text)})`);
  visit(JSON.parse(String(tree)));
  return named;
}

async function viewsOf(session: SqlSession, tables: ReadonlySet<string>): Promise<readonly Part[]> {
  if (tables.size === 0) return [];
  const rows = await session.rows(
    `SELECT sql FROM duckdb_views() WHERE NOT internal AND NOT temporary AND lower(view_name) IN (${[...tables].map(literal).join(', ')})`,
  );
  return rows.map(([sql]) => {
    const [, columns, text = ''] = /^CREATE VIEW [^(]*?(\(.*?\))? AS ([\s\S]*?);?$/.exec(String(sql)) ?? [];
    return { text, passesOn: columns === undefined };
  });
}

/** DuckDB's own functions, which take longer to list than most SQL to parse. */
let builtIn: ReadonlySet<string> | null = null;

/** The SQL of macros, with the arguments of their calls. */
async function macrosOf(
  session: SqlSession,
  text: string,
  calls: ReadonlyMap<string, number>,
): Promise<readonly Part[]> {
  builtIn ??= new Set((await session.rows('SELECT function_name FROM duckdb_functions() WHERE internal')).map(String));
  const names = [...calls.keys()].filter((each) => !builtIn?.has(each));
  if (names.length === 0) return [];
  const rows = await session.rows(
    `SELECT lower(function_name), macro_definition, parameters FROM duckdb_functions()
     WHERE NOT internal AND macro_definition IS NOT NULL AND lower(function_name) IN (${names.map(literal).join(', ')})`,
  );
  return rows.map(([macro, definition, parameters]) => {
    const given = new Map<string, string>();
    for (const [index, argument] of argumentsAt(text, calls.get(String(macro)) ?? 0).entries()) {
      const [, key = (parameters as string[])[index] ?? '', value = argument] =
        /^(\w+)\s*(?::=|=>)\s*([\s\S]*)$/.exec(argument) ?? [];
      given.set(key.toLowerCase(), value);
    }
    const tokens = [...tokensOf(String(definition), STANDARD)];
    const filled = tokens.map((token) => given.get(token.text.toLowerCase()) ?? token.text).join('');
    return { text: filled.startsWith('(') ? `SELECT ${filled}` : filled, passesOn: false };
  });
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

/** The arguments of the call at this place, as they are written: by name, or as DuckDB writes it, `("name" = value)`. */
function argumentsAt(statement: string, at: number): readonly string[] {
  const given: string[] = [];
  let depth = 0;
  let text = '';
  for (const token of tokensOf(Buffer.from(statement).subarray(at).toString(), STANDARD)) {
    if (depth > 0 && !(depth === 1 && /^[),]$/.test(token.text))) text += token.text;
    if (depth === 1 && /^[),]$/.test(token.text)) {
      given.push(text.trim().replace(/^\("(\w+)" = ([\s\S]*)\)$/, '$1 = $2'));
      text = '';
    }
    if (/^[([{]$/.test(token.text)) depth += 1;
    if (/^[)\]}]$/.test(token.text)) depth -= 1;
    if (depth === 0 && token.text === ')') break;
  }
  return given;
}
