import type { SyncPlan } from '../../../jobs/index.ts';
import { count } from './terminal.ts';

/** A plan, or why there is none. */
export type Planned = { readonly plan: SyncPlan } | { readonly key: string; readonly failed: string };

/** Characters of a comment that GitHub takes are 65,536. */
const MOST = 60_000;
const REASON = 300;
const SAMPLE = 200;

/** Plans as a comment of a pull request: a table, then samples as far as there is room. */
export function planMarkdown(planned: readonly Planned[]): string {
  const rows = planned.filter((each) => 'failed' in each || !isQuiet(each.plan)).map(row);
  const quiet = planned.length - rows.length;
  const lines = ['### What a sync would send', ''];
  if (rows.length > 0)
    lines.push('| audience or trait | members | enter | leave | change | messages | |', `|${'---|'.repeat(7)}`);
  const shown = fitting(rows, MOST);
  lines.push(...shown);
  if (shown.length < rows.length) lines.push('', `And ${rows.length - shown.length} more.`);
  if (quiet > 0) lines.push('', `${count(quiet, 'audience or trait', 'audiences or traits')} would send nothing.`);
  const used = lines.join('\n').length;
  return [...lines, ...fitting(planned.flatMap(samples), MOST - used)].join('\n');
}

const isQuiet = ({ messages, held, renamedFrom, unfinished }: SyncPlan) =>
  messages === 0 && held === null && renamedFrom === null && unfinished.length === 0;

function fitting(parts: readonly string[], room: number): readonly string[] {
  let left = room;
  const end = parts.findIndex((part) => {
    left -= part.length + 1;
    return left < 0;
  });
  return end < 0 ? parts : parts.slice(0, end);
}

function row(planned: Planned): string {
  if ('failed' in planned) return cells([code(planned.key), '', '', '', '', '', `**failed**: ${code(planned.failed)}`]);
  const { key, before, members, entered, exited, changed, messages, held, first, renamedFrom, unfinished } =
    planned.plan;
  const waiting = unfinished.find(({ state }) => state === 'held');
  const notes = [
    ...(first ? ['first sync'] : []),
    ...(renamedFrom === null ? [] : [`renamed from ${code(renamedFrom)}`]),
    ...(held === null ? [] : [`**would be held**: ${code(held)}`]),
    ...(waiting ? [`**run ${code(waiting.run)} is held**`] : []),
  ];
  return cells([
    code(key),
    `${before} → ${members}`,
    ...[entered, exited, changed, messages].map(String),
    notes.join('; '),
  ]);
}

const cells = (texts: readonly string[]) => `| ${texts.join(' | ')} |`;

function samples(planned: Planned): readonly string[] {
  if ('failed' in planned || planned.plan.sample.length === 0) return [];
  const { key, sample } = planned.plan;
  const items = sample.map((body) => {
    const { userId, traits } = JSON.parse(body) as { readonly userId: string; readonly traits: object };
    return `<li>${code(`${userId}: ${JSON.stringify(traits)}`, SAMPLE)}</li>`;
  });
  return [`\n<details><summary>Samples of ${code(key)}</summary><ul>${items.join('')}</ul></details>`];
}

/** Foreign text that neither Markdown nor HTML nor mentions can be made with. */
function code(text: string, most = REASON): string {
  const short = text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text;
  const escaped = short.replaceAll(/[^\p{L}\p{N} .,…-]/gu, (char) => `&#${char.codePointAt(0)};`);
  return `<code>${escaped}</code>`;
}
