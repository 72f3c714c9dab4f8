import { RollcallError } from '../../../../src/kernel/errors.ts';
import { type CsvForm, recordsOf } from './lines.ts';
import { shownPath } from './text-source.ts';
import { ageOf } from './whole.ts';

export function differs(message: string): RollcallError {
  return new RollcallError('file_differs', message);
}

/** The forms of files that are read; null for those that are not CSV. */
type FileForms = ReadonlyMap<string, CsvForm | null>;

/** The error for a record that DuckDB can't take apart; null for other errors. */
export async function brokenRecord(message: string, forms: FileForms, folder: string): Promise<RollcallError | null> {
  const [, line] = /CSV Error on Line: (\d+)/.exec(message) ?? [];
  const [, file = ''] = /^\s*file = (.*)$/m.exec(message) ?? [];
  const form = forms.get(file);
  if (!form) return brokenJson(message, forms, folder);
  const shown = `${shownPath(file, folder)}${line === undefined ? '' : `, line ${line}`}`;
  if (/Invalid unicode|not utf-8 encoded/i.test(message)) {
    return differs(`${shown}: this is not ${form.encoding}. Write encoding: latin-1 or utf-16, or convert the file`);
  }
  const end = line === undefined ? null : await endOf(file, Number(line), form).catch(() => null);
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

async function brokenJson(message: string, forms: FileForms, folder: string): Promise<RollcallError | null> {
  const [, file = '', line, reason = ''] =
    /Malformed JSON in file "([^"]+)", at byte \d+ in (?:line (\d+)|[^:]*): ?(.*)/i.exec(message) ?? [];
  if (!forms.has(file)) return null;
  // DuckDB names the line after.
  const shown = `${shownPath(file, folder)}${line === undefined ? '' : `, line ${Number(line) - 1}`}`;
  if (!/unexpected end of data/.test(reason)) return differs(`${shown}: this is not valid JSON. Correct the file`);
  const { last } = await endOf(file, 0, null);
  const end = `${shownPath(file, folder)}, line ${last}: the file ends within a record. ${await ageOf(file)}`;
  return new RollcallError('source_incomplete', end);
}

async function endOf(file: string, line: number, csv: CsvForm | null) {
  let last = 0;
  let isOpen = false;
  for await (const record of recordsOf(file, csv)) {
    if (record.isBlank) continue;
    last = record.line;
    isOpen = record.isOpen;
  }
  return { last, isLast: line >= last, isOpen };
}

/** @throws RollcallError that says if a file named in SQL is likely to be still written */
export async function incompleteFile(error: RollcallError, message: string, files: readonly string[]): Promise<void> {
  const file = files.find((each) => !each.includes('://') && message.includes(each));
  if (file === undefined) return;
  throw new RollcallError(error.code, `${error.message}\n${await ageOf(file)}`, { cause: error });
}
