import { relative } from 'node:path';
import { literal, name } from '../../sql/plan-query.ts';
import type { SqlSession } from '../../sql/session.ts';
import { type CsvForm, lineOf } from './lines.ts';

/** A column of files that are read as text. */
export interface TextColumn {
  /** The name in SQL and errors. */
  readonly name: string;
  /** SQL of its text in `read`. */
  readonly text: string;
  readonly type: string;
  /** SQL that is true for text that is not of the type. */
  readonly isBad: string;
}

/** Files of one form, of which all values can be read as text. */
export interface TextSource {
  readonly files: readonly string[];
  readonly format: 'csv' | 'json' | 'parquet';
  /** Null unless it is CSV. */
  readonly csv: CsvForm | null;
  readonly columns: readonly TextColumn[];
  /** SQL of a table function over these files. */
  read(files: readonly string[], options?: string): string;
}

/** A value that is not of its column's type. */
export interface WrongValue {
  readonly file: string;
  /** Such as `line 20482`. */
  readonly place: string;
  readonly column: TextColumn;
  readonly value: string;
}

/** Reads the files once, and those of a fault again for its line. Null if every value has its type. */
export async function findFault(session: SqlSession, source: TextSource): Promise<WrongValue | null> {
  const doubted = source.columns.filter(({ isBad }) => isBad !== 'false');
  if (doubted.length === 0) return null;
  const anyBad = doubted.map(({ isBad }) => `coalesce(${isBad}, false)`).join(' OR ');
  const found = await session.rows(
    `SELECT DISTINCT rollcall_file FROM ${source.read(source.files, ", filename = 'rollcall_file'")} WHERE ${anyBad}`,
  );
  const faulty = new Set(found.map(([file]) => String(file)));
  const file = source.files.find((each) => faulty.has(each));
  if (file === undefined) return null;
  const bad = doubted.map(({ isBad }) => `coalesce(${isBad}, false)`);
  const texts = doubted.map(({ text }) => `CAST(${text} AS varchar)`);
  const [row = []] = await session.rows(
    `SELECT rollcall_record, [${texts.join(', ')}], [${bad.join(', ')}]
     FROM (SELECT row_number() OVER () AS rollcall_record, * FROM ${source.read([file])}) WHERE ${anyBad} ORDER BY rollcall_record LIMIT 1`,
  );
  const [record, values, which] = row as [bigint, readonly unknown[], readonly boolean[]];
  const index = which.indexOf(true);
  return {
    file,
    place: await placeOf(file, Number(record), source),
    column: doubted[index] as TextColumn,
    value: String(values[index]),
  };
}

async function placeOf(file: string, record: number, { format, csv, columns }: TextSource): Promise<string> {
  if (format === 'parquet') return `row ${record}`;
  const line = await lineOf(file, record, csv, columns.length === 1).catch(() => null);
  return line === null ? `record ${record}` : `line ${line}`;
}

/** SQL that reads CSV files as they are: nothing is guessed, all columns are text and named c0, c1, …. */
export function rawCsv(files: readonly string[], width: number, form: CsvForm, options = ''): string {
  const columns = Array.from({ length: width }, (_, index) => `'c${index}': 'VARCHAR'`).join(', ');
  const { header, delimiter, quote, encoding, skip = 0 } = form;
  return `read_csv(${fileList(files)}, columns = {${columns}}, auto_detect = false, header = ${header}, skip = ${skip}, delim = ${literal(delimiter)}, quote = ${literal(quote)}, escape = ${literal(form.escape)}, encoding = ${literal(encoding)}${options})`;
}

/** SQL that reads the named columns of JSON files as text or as JSON. */
export function rawJson(
  files: readonly string[],
  columns: readonly (readonly [string, string])[],
  options = '',
): string {
  const types = columns.map(([column, type]) => `${name(column)}: '${type}'`).join(', ');
  return `read_json(${fileList(files)}, columns = {${types}}${options})`;
}

export const fileList = (files: readonly string[]) => `[${files.map(literal).join(', ')}]`;

/** The path as people write it in the configuration. */
export function shownPath(file: string, folder: string): string {
  const path = relative(folder, file);
  return file.includes('://') || path.startsWith('..') ? file : path;
}

/** A type that holds the text as it stands. */
export function fittingType(value: string): string {
  const [, places] = /^[+-]?(?:0|[1-9]\d{0,15})(?:\.(\d{1,6}))?$/.exec(value) ?? [];
  if (places !== undefined) return `decimal(18,${places.length})`;
  return 'text';
}
