import type { TableConfig } from '../../../../src/config/config.ts';
import { RollcallError } from '../../../../src/kernel/errors.ts';
import { literal, name } from '../../sql/plan-query.ts';
import type { SqlSession } from '../../sql/session.ts';
import { brokenRecord, differs } from './csv-errors.ts';
import type { CsvForm } from './lines.ts';
import { parquetValue } from './parquet-value.ts';
import { fileList, fittingType, rawCsv, rawJson, shownPath, type TextSource, type WrongValue } from './text-source.ts';
import { type TypedText, typedText } from './typed-text.ts';
import { ageOf, type FileLooks, insistOnWhole, type Prints, printsOf } from './whole.ts';

/** A table of the configuration, with the files that it has now. */
export interface FileTable {
  readonly name: string;
  /** The files as they were before they were read. */
  readonly prints: Prints;
  /** Files of the same columns. */
  readonly sources: readonly (TextSource & { readonly query: string })[];
}

/**
 * Finds the files of a table, and how each has to be read.
 *
 * @throws RollcallError `source_incomplete` if a file is absent or cut off, `file_differs` if their columns are others
 */
export async function openTable(looks: FileLooks, tableName: string, config: TableConfig): Promise<FileTable> {
  const { session, folder } = looks;
  const files = await filesOf(session, config.files);
  if (files.length === 0) {
    const patterns = config.files.map((pattern) => shownPath(pattern, folder)).join(', ');
    throw new RollcallError(
      'source_incomplete',
      `${tableName}: no file is there for ${patterns}. It may be late: check the path, or wait.`,
    );
  }
  const prints = await printsOf(session, files);
  await insistOnWhole(looks, prints);
  const groups = new Map<string, { found: readonly Found[]; files: string[] }>();
  for (const file of files) {
    const found = await columnsOf(session, file, config, folder).catch(async (error: Error) => {
      throw (await brokenRecord(error.message, new Map([[file, csvForm(config)]]), folder)) ?? error;
    });
    const shown = shownPath(file, folder);
    compareColumns(found, config, shown);
    const [folderless] = Object.keys(config.partitions).filter((each) => !file.includes(`/${each}=`));
    if (folderless !== undefined) throw differs(`${shown}: no folder of its path is named ${folderless}=…`);
    const key = JSON.stringify(found);
    const group = groups.get(key) ?? { found, files: [] };
    groups.set(key, group);
    group.files.push(file);
  }
  const sources = [...groups.values()].map((group) => sourceOf(config, group.files, group.found, folder));
  return { name: tableName, prints, sources };
}

/** Creates the table's view, which only this session sees. */
export async function showTable(session: SqlSession, { name: tableName, sources }: FileTable): Promise<void> {
  const query = sources.map((source) => source.query).join(' UNION ALL ');
  await session.run(`CREATE OR REPLACE TEMP VIEW ${name(tableName)} AS ${query}`);
}

export async function filesOf(session: SqlSession, patterns: readonly string[]): Promise<readonly string[]> {
  const files = new Set<string>();
  for (const pattern of patterns) {
    for (const [file] of await session.rows(`SELECT file FROM glob(${literal(pattern)})`)) files.add(String(file));
  }
  return [...files];
}

/** A column that a file has, with the type that a Parquet file gives it. */
interface Found {
  readonly name: string;
  readonly type: string;
}

async function columnsOf(
  session: SqlSession,
  file: string,
  config: TableConfig,
  folder: string,
): Promise<readonly Found[]> {
  const { format, columns, header } = config;
  if (format === 'parquet') {
    return (await session.columns(`SELECT * FROM read_parquet(${literal(file)}) LIMIT 0`)).map(({ name, type }) => ({
      name,
      type,
    }));
  }
  if (format === 'json') {
    const rows = await session.rows(`SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects(${literal(file)})`);
    if (rows.length === 0) throw await empty(file, folder);
    const keys = new Set(rows.map(([key]) => String(key)));
    // Records come in any order, and so do their keys: files of all keys that count are read alike.
    const known = Object.keys(columns).filter((key) => keys.has(key));
    return [...known, ...[...keys].filter((key) => !Object.hasOwn(columns, key)).sort()].map((name) => ({
      name,
      type: '',
    }));
  }
  if (!header) return Object.keys(columns).map((name) => ({ name, type: '' }));
  const line = { header: false, delimiter: '\u0001', quote: '', escape: '', encoding: config.encoding };
  const [[first] = []] = await session.rows(
    `SELECT c0 FROM ${rawCsv([file], 1, line, ', strict_mode = false')} LIMIT 1`,
  );
  if (first === undefined || first === null) throw await empty(file, folder);
  return splitLine(String(first), config).map((name) => ({ name, type: '' }));
}

async function empty(file: string, folder: string): Promise<RollcallError> {
  return new RollcallError('source_incomplete', `${shownPath(file, folder)} is empty. ${await ageOf(file)}`);
}

function splitLine(line: string, { delimiter, quote }: Pick<TableConfig, 'delimiter' | 'quote'>): readonly string[] {
  const values: string[] = [];
  let value = '';
  let isQuoted = false;
  for (const char of line.replace(/^\ufeff/, '')) {
    if (quote !== '' && char === quote) isQuoted = !isQuoted;
    else if (char === delimiter && !isQuoted) {
      values.push(value.trim());
      value = '';
    } else value += char;
  }
  return [...values, value.trim()];
}

const same = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();

function compareColumns(found: readonly Found[], config: TableConfig, shown: string): void {
  const { columns, partitions, missingColumns, newColumns } = config;
  const declared = Object.keys(columns);
  const repeated = declared.find((column) => found.filter(({ name }) => same(name, column)).length > 1);
  if (repeated !== undefined) throw differs(`${shown} has two columns ${repeated}`);
  const missing = declared.filter((column) => !found.some(({ name }) => same(name, column)));
  if (missing.length > 0 && missingColumns === 'fail') {
    throw differs(
      `${shown} has no column ${missing.join(', ')}; it has ${found.map(({ name }) => name).join(', ')}. Correct columns or the file, or write missingColumns: allow`,
    );
  }
  const known = [...declared, ...Object.keys(partitions)];
  const added = found.filter(({ name }) => !known.some((column) => same(name, column))).map(({ name }) => name);
  if (added.length > 0 && newColumns === 'fail') {
    throw differs(`${shown} has the new column ${added.join(', ')}. Add it to columns, or write newColumns: allow`);
  }
}

function csvForm(config: TableConfig): CsvForm | null {
  return config.format === 'csv' ? { ...config, escape: config.quote } : null;
}

function sourceOf(
  config: TableConfig,
  files: readonly string[],
  found: readonly Found[],
  folder: string,
): FileTable['sources'][number] {
  const { format, columns, partitions } = config;
  const csv = csvForm(config);
  const hive = Object.keys(partitions);
  const types = hive.map((each) => `${literal(each)}: VARCHAR`).join(', ');
  const folders = `, hive_partitioning = ${hive.length > 0}${hive.length > 0 ? `, hive_types = {${types}}` : ''}`;
  const keys = Object.keys(columns).filter((column) => found.some(({ name }) => same(name, column)));
  const jsonColumns = keys.map((key) => [key, same(columns[key] ?? '', 'json') ? 'JSON' : 'VARCHAR'] as const);
  const read = (some: readonly string[], options = '') => {
    if (csv) return rawCsv(some, found.length, csv, folders + options);
    if (format === 'json') return rawJson(some, jsonColumns, folders + options);
    return `read_parquet(${fileList(some)}${folders}${options})`;
  };
  const typed = [...Object.entries(columns), ...Object.entries(partitions)].map(([column, type]) => {
    const index = found.findIndex(({ name }) => same(name, column));
    const isFolder = Object.hasOwn(partitions, column);
    if (index < 0 && !isFolder) return { name: column, text: '', type, value: `CAST(NULL AS ${type})`, isBad: 'false' };
    const text = csv && !isFolder ? `c${index}` : name(found[index]?.name ?? column);
    return {
      name: column,
      text,
      type,
      ...columnValue(text, type, isFolder ? undefined : found[index]?.type, config, {
        column,
        file: files[0] ?? '',
        folder,
      }),
    };
  });
  const list = typed.map(({ name: column, value }) => `${value} AS ${name(column)}`).join(', ');
  return { files, format, csv, columns: typed, read, query: `SELECT ${list} FROM ${read(files)}` };
}

function columnValue(
  text: string,
  type: string,
  stored: string | undefined,
  config: TableConfig,
  { column, file, folder }: { readonly column: string; readonly file: string; readonly folder: string },
): TypedText {
  if (config.format === 'json' && same(type, 'json')) return { value: text, isBad: 'false' };
  if (!stored || stored === 'VARCHAR') return typedText(text, type, config);
  const value = parquetValue(text, type, stored);
  if (value) return value;
  throw differs(
    `${shownPath(file, folder)}: the column ${column} is ${stored.toLowerCase()}, not ${type}. Write the type of the files in columns`,
  );
}

/** The error for a value that is not as its table says. */
export function faultError({ file, place, column, value }: WrongValue, folder: string): RollcallError {
  const fitting = fittingType(value);
  return differs(
    `${shownPath(file, folder)}, ${place}, column ${column.name}: ${JSON.stringify(value)} is not ${column.type}. Correct the file, or write ${column.name}: ${fitting.includes('(') ? `"${fitting}"` : fitting} in columns`,
  );
}
