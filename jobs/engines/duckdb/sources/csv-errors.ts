import { RollcallError } from '../../../../src/kernel/errors.ts';
import { recordsOf } from './lines.ts';
import { differs } from './tables.ts';
import { shownPath, type TextSource } from './text-source.ts';
import { ageOf } from './whole.ts';

/** The error for a record that DuckDB can't take apart; null for other errors. */
export async function brokenRecord(
  message: string,
  sources: readonly TextSource[],
  folder: string,
): Promise<RollcallError | null> {
  const [, line] = /CSV Error on Line: (\d+)/.exec(message) ?? [];
  const [, file = ''] = /^\s*file = (.*)$/m.exec(message) ?? [];
  const source = sources.find(({ files }) => files.includes(file));
  if (!source) return brokenJson(message, sources, folder);
  const shown = `${shownPath(file, folder)}${line === undefined ? '' : `, line ${line}`}`;
  if (/Invalid unicode|not utf-8 encoded/i.test(message)) {
    return differs(
      `${shown}: this is not ${source.csv?.encoding}. Write encoding: latin-1 or utf-16, or convert the file`,
    );
  }
  const end = line === undefined ? null : await endOf(file, Number(line), source).catch(() => null);
  const cut = async (reason: string) =>
    new RollcallError('source_incomplete', `${shown}: ${reason}. ${await ageOf(file)}`);
  const [, wanted, found] = /Expected Number of Columns: (\d+) Found: (\d+)/.exec(message) ?? [];
  if (wanted !== undefined) {
    const counts = `the line has ${found} values in place of ${wanted}`;
    if (Number(found) < Number(wanted) && end?.isLast) return cut(`${counts}, and is the last`);
    return differs(`${shown}: ${counts}. Correct the file, or delimiter and quote of the table`);
  }
  if (/unterminated quote/.test(message)) {
    if (end?.isOpen) return cut('the quote that opens here is never closed');
    return differs(
      `${shown}: a quote within a value is not doubled. Correct the file, or write another quote for the table ("" for none)`,
    );
  }
  if (!/CSV (Error|Parser)/.test(message) || /Error when converting/.test(message)) return null;
  return differs(`${shown}: the line is not valid CSV. Correct the file, or delimiter and quote of the table`);
}

async function brokenJson(
  message: string,
  sources: readonly TextSource[],
  folder: string,
): Promise<RollcallError | null> {
  const [, file = '', place = '', reason = ''] =
    /JSON in file "([^"]+)",? (?:at byte \d+ )?(?:in )?(line \d+|record[^:]*)?: ?(.*)/i.exec(message) ?? [];
  if (!sources.some(({ files }) => files.includes(file))) return null;
  const shown = `${shownPath(file, folder)}${place === '' ? '' : `, ${place}`}`;
  if (!/unexpected end of data/.test(reason)) return differs(`${shown}: this is not valid JSON. Correct the file`);
  return new RollcallError('source_incomplete', `${shown}: the file ends within a record. ${await ageOf(file)}`);
}

async function endOf(file: string, line: number, { csv }: TextSource) {
  let last = 0;
  let isOpen = false;
  for await (const record of recordsOf(file, csv)) {
    if (record.isBlank) continue;
    last = record.line;
    isOpen = record.isOpen;
  }
  return { isLast: line >= last, isOpen };
}

/** @throws RollcallError that says if a file named in SQL is likely to be still written */
export async function incompleteFile(error: RollcallError, message: string, files: readonly string[]): Promise<void> {
  const file = files.find((each) => !each.includes('://') && message.includes(each));
  if (file === undefined) return;
  throw new RollcallError(error.code, `${error.message}\n${await ageOf(file)}`, { cause: error });
}
