import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import escapeRegExp from 'lodash/escapeRegExp.js';
import t from 'tap';
import { PAGES } from '../../src/admin/page-lists.ts';
import { buildProgram } from '../../src/cli/program.ts';

const text = readFileSync(join(import.meta.dirname, '../../docs/operating.md'), 'utf8');
const rows = [...text.matchAll(/^\| (?!question|-)(.+?) \| (.+?) \| `rollcall (.+?)` \|$/gm)].map(
  ([, question = '', pages = '', line = '']) => ({ question, pages, words: line.split(' ') }),
);
const program = () => buildProgram({ stdout: process.stdout, stderr: process.stderr } as never, () => {});

/** The command that a line names, and what follows its name. */
function commandOf(words: readonly string[]): { command: Command; rest: string[] } {
  let command = program();
  for (const [index, word] of words.entries()) {
    const next = command.commands.find((each) => each.name() === word);
    if (!next) return { command: byDefault(command), rest: words.slice(index) };
    command = next;
  }
  return { command: byDefault(command), rest: [] };
}

/** The command that runs without the name of one: `events` is `events show`. */
const byDefault = (command: Command) => command.commands.find((each) => each.name() === 'show') ?? command;

t.test('each question has an answer on the pages, in three clicks at most', async (t) => {
  t.equal(rows.length, 27);
  const places = PAGES.flatMap(({ title }) => title ?? []);
  t.ok(places.length >= 8);
  for (const { question, pages } of rows) {
    const steps = pages.split(' → ');
    t.ok(places.includes((steps[0] ?? '').replace(/:.*/, '')), `${question} ${steps[0]}`);
    // Whoever is on the overview clicks once to be on another page.
    t.ok(steps.length - (steps[0]?.startsWith('Overview') ? 1 : 0) <= 3, question);
  }
});

t.test('the pages have what is to be pressed', async (t) => {
  const folder = join(import.meta.dirname, '../../src/admin/pages');
  const modules = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
  const texts = modules.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n');
  const pages = texts.replaceAll(/(?<=>)\s+|\s+(?=<)/g, '');
  // Names on the pages begin with a capital: buttons, fields, sections. Audiences, runs and endpoints have names of their own.
  const words = rows
    .flatMap((row) => row.pages.split(/ → |, or |, then |: /))
    .map((step) => step.replace(/ `.+`$/, ''));
  const shown = new Set(words.map((step) => step.replaceAll(/[“”]/g, '')).filter((step) => /^(?:[A-Z]|\d)/.test(step)));
  t.ok(shown.size > 20, `${shown.size}`);
  // As text between tags, or as a word that a page is given.
  const isThere = (words: string) => new RegExp(`[>'"/]${escapeRegExp(words)}[<'"…]`).test(pages);
  for (const each of shown) t.ok(isThere(each), each);
});

t.test('each command exists, with the options and arguments that it is given', async (t) => {
  for (const { words } of rows) {
    const { command, rest } = commandOf(words);
    const line = words.join(' ');
    t.not(command.parent, null, line);
    const { operands, unknown } = command.parseOptions(rest);
    t.same(unknown, [], line);
    const { registeredArguments: wanted } = command;
    t.ok(operands.length >= wanted.filter(({ required }) => required).length, `${line}: enough arguments`);
    t.ok(operands.length <= wanted.length || wanted.at(-1)?.variadic === true, `${line}: not too many`);
  }
});
