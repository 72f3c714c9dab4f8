import type { ConfigDifference } from '../../config/difference.ts';
import { inLine } from './terminal.ts';
import { truncated } from './text-width.ts';

const MARKS = { added: '+', removed: '-', renamed: '>', changed: '~' };
/** Lines of a text, and characters of a value, that are shown. --json has all. */
const LINES = 40;
const WIDTH = 100;

export function differenceText({ section, name, change, from, settings }: ConfigDifference): string {
  const head = `${MARKS[change]} ${section}: ${inLine(from === null ? name : `${from} → ${name}`)} ${change}`;
  return [head, ...settings.flatMap(settingLines)].join('\n    ');
}

function settingLines({ setting, before, after }: ConfigDifference['settings'][number]): readonly string[] {
  if ([before, after].every((value) => typeof value === 'string') && /\n/.test(`${before}${after}`))
    return [inLine(setting), ...changedLines(String(before), String(after))];
  return [`${inLine(setting)}: ${shown(before)} → ${shown(after)}`];
}

function shown(value: unknown): string {
  const text = value === null ? 'none' : typeof value === 'string' ? value : JSON.stringify(value);
  return truncated(inLine(text), WIDTH);
}

/** The lines of two texts between those that both begin and end with. */
function changedLines(before: string, after: string): readonly string[] {
  const [old, now] = [before.trimEnd().split('\n'), after.trimEnd().split('\n')];
  while (old.length > 0 && now.length > 0 && old[0] === now[0]) [old, now].forEach((lines) => void lines.shift());
  while (old.length > 0 && now.length > 0 && old.at(-1) === now.at(-1)) [old, now].forEach((lines) => void lines.pop());
  const lines = [...old.map((line) => `  - ${line}`), ...now.map((line) => `  + ${line}`)];
  const more = lines.length - LINES;
  return [...lines.slice(0, LINES).map(inLine), ...(more > 0 ? [`  and ${more} more lines`] : [])];
}
