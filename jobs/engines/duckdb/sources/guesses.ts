import { RollcallError } from '../../../../src/kernel/errors.ts';
import { literal, name, type ValueType } from '../../sql/plan-query.ts';
import type { SqlSession } from '../../sql/session.ts';
import type { NamedFile, NamedFiles } from './named-files.ts';
import {
  findFault,
  fittingType,
  rawCsv,
  rawJson,
  shownPath,
  type TextColumn,
  type TextSource,
  type WrongValue,
} from './text-source.ts';
import { type FileLooks, type Prints, UNKNOWN } from './whole.ts';

/**
 * Compares the types that DuckDB guesses from a file's first lines with the whole file, unless neither the file nor the
 * call changed since the last look. Only columns count that the SQL names.
 *
 * @throws RollcallError `types_guessed` with the first line at which a guess is wrong
 */
export async function insistOnGuesses(
  { session, folder, once }: FileLooks,
  { files, columns }: NamedFiles,
  prints: Prints,
): Promise<void> {
  for (const each of files) {
    if (each.format === 'parquet' || each.files.length === 0) continue;
    const found = each.files.map((file) => [file, prints.get(file)]);
    await once(['guesses', each.call, folder, columns === null ? null : [...columns].sort(), found], async () => {
      const fault = await lookThrough(session, each, columns);
      if (fault === 'unread') return false;
      if (fault === null) return found.every(([, print]) => print !== UNKNOWN);
      const { file, place, column, value } = fault;
      const fitting = fittingType(value);
      throw new RollcallError(
        'types_guessed',
        `${shownPath(file, folder)}, ${place}, column ${column.name}: ${JSON.stringify(value)} is not ${column.type}, which DuckDB guesses from the first lines. Name the file and its types under tables of the engine (docs/engines.md#files), such as ${column.name.split('.')[0]}: ${fitting.includes('(') ? `"${fitting}"` : fitting}`,
      );
    });
  }
}

/** The first value that a guess changes; `unread` if the file can't be read so, which the SQL itself will show. */
async function lookThrough(
  session: SqlSession,
  file: NamedFile,
  wanted: NamedFiles['columns'],
): Promise<WrongValue | null | 'unread'> {
  try {
    const source = file.format === 'csv' ? await csvSource(session, file) : await jsonSource(session, file);
    if (!source) return null;
    const columns = source.columns.filter(
      ({ name: column }) => wanted === null || wanted.has((column.split('.')[0] ?? '').toLowerCase()),
    );
    return await findFault(session, { ...source, columns });
  } catch {
    return 'unread';
  }
}

/** Options that the form of a CSV file depends on. */
const FORM =
  /^\s*(delim|delimiter|sep|quote|escape|header|skip|encoding|comment|strict_mode|compression|dateformat|date_format|timestampformat|timestamp_format|sample_size|nullstr|null_padding|ignore_errors|decimal_separator|new_line|names|column_names)\s*(:=|=)/i;

async function csvSource(session: SqlSession, { call, files, options }: NamedFile): Promise<TextSource | null> {
  if (options.some((option) => /^\s*(columns|all_varchar|auto_detect)\b/i.test(option))) return null;
  const named = options.find((option) => /^\s*(types|dtypes|column_types)\b/i.test(option)) ?? '';
  const form = options.filter((option) => FORM.test(option));
  const [sniffed] = await session.rows(
    `SELECT Delimiter, Quote, Escape, HasHeader, SkipRows, len(Columns), DateFormat, TimestampFormat FROM sniff_csv(${[literal(files[0] ?? ''), ...form].join(', ')})`,
  );
  if (!sniffed) return null;
  const [delimiter, quote, escaping, header, skip, width, dateFormat, timestampFormat] = sniffed;
  const given = /\bencoding\s*(?::=|=)\s*'([^']*)'/i.exec(options.join(' '))?.[1] ?? 'utf-8';
  const absent = (value: unknown) => (value === '(empty)' ? '' : String(value));
  const csv = {
    header: header === true,
    delimiter: absent(delimiter),
    quote: absent(quote),
    escape: absent(escaping),
    encoding: given,
    skip: Number(skip),
  };
  const guessed = await session.columns(`SELECT * FROM ${call} LIMIT 0`);
  const isDate = (option: RegExp) => options.some((each) => option.test(each));
  const columns = guessed.slice(0, Number(width)).map(({ name: column, type }, index): TextColumn => {
    const isNamed = named.toLowerCase().includes(column.toLowerCase());
    const format = type === 'DATE' ? dateFormat : timestampFormat;
    const isSaid = isDate(type === 'DATE' ? /date_?format/i : /timestamp_?format/i);
    const isBad = isNamed || (isSaid && format !== null) ? 'false' : wrong(`c${index}`, type, false);
    return { name: column, text: `c${index}`, type, isBad };
  });
  return {
    files,
    format: 'csv',
    csv,
    columns,
    read: (some, more) => rawCsv(some, Number(width), csv, `${more ?? ''}, hive_partitioning = false`),
  };
}

async function jsonSource(session: SqlSession, { call, files, options }: NamedFile): Promise<TextSource | null> {
  if (options.some((option) => /^\s*columns\b/i.test(option))) return null;
  const guessed = await session.columns(`SELECT * FROM ${call} LIMIT 0`);
  const kept = options.filter((option) =>
    /^\s*(format|records|compression|maximum_object_size|ignore_errors)\s*(:=|=)/i.test(option),
  );
  const more = kept.map((option) => `, ${option}`).join('');
  const columns = guessed.flatMap(({ name: column, ...type }) => leaves(name(column), column, '$', type, false));
  const read = (some: readonly string[], filename = '') =>
    rawJson(
      some,
      guessed.map(({ name: column }) => [column, 'JSON'] as const),
      `${filename}${more}, hive_partitioning = false`,
    );
  return { files, format: 'json', csv: null, columns, read };
}

/** The values within a JSON column whose type is guessed. */
function leaves(column: string, label: string, path: string, type: ValueType, isList: boolean): readonly TextColumn[] {
  if (type.fields) {
    return type.fields.flatMap((field) =>
      leaves(column, `${label}.${field.name}`, `${path}."${field.name.replaceAll('"', '\\"')}"`, field, isList),
    );
  }
  if (type.items) return leaves(column, label, `${path}[*]`, type.items, true);
  const text = `json_extract_string(${column}, ${literal(path)})`;
  if (!isList) return [{ name: label, text, type: type.type, isBad: wrong(text, type.type, true) }];
  const isWrong = wrong('item', type.type, true);
  const isBad = isWrong === 'false' ? 'false' : `len(list_filter(${text}, lambda item: ${isWrong})) > 0`;
  return [{ name: label, text, type: type.type, isBad }];
}

/** SQL that is true for text that a guessed type changes. */
function wrong(text: string, type: string, isJson: boolean): string {
  const tried = `TRY_CAST(${text} AS ${type})`;
  const changed = `${text} IS NOT NULL AND CAST(${tried} AS varchar) IS DISTINCT FROM trim(${text})`;
  if (/^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|UUID)$/.test(type)) return changed;
  if (/^(DOUBLE|FLOAT|DECIMAL.*)$/.test(type))
    return `${text} IS NOT NULL AND (${tried} IS NULL OR contains(${text}, '_'))`;
  // JSON reads times with an offset as the instants that they are.
  if (type === 'TIMESTAMP') {
    const instant = `TRY_CAST(${text} AS timestamptz)`;
    const other = isJson ? '' : ` OR CAST(${instant} AS timestamp) <> ${tried}`;
    return `${text} IS NOT NULL AND (${instant} IS NULL${other})`;
  }
  if (/^(DATE|TIME|TIMESTAMP WITH TIME ZONE|BOOLEAN)$/.test(type)) return `${text} IS NOT NULL AND ${tried} IS NULL`;
  return 'false';
}
