import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import t from 'tap';
import { buildProgram } from '../src/cli/program.ts';
import { parseConfig } from '../src/config/load.ts';
import { actionsOf, difference } from './newcomer/page.ts';

/*
 * The short version of `npm run test:newcomer`, which types what is checked here: commands and options exist, configurations are
 * valid, and every block says what becomes of it.
 */
const ROOT = resolve(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const pages = [
  'README.md',
  ...globSync(['docs/**/*.md', 'deploy/*.md', 'deploy/prometheus/*.yaml', 'receivers/*.md'], { cwd: ROOT }),
];
const guide = globSync('docs/guide/[0-9]*.md', { cwd: ROOT }).sort();
const { stdin, stdout, stderr } = process;
const program = buildProgram({ stdin, stdout, stderr, signal: new AbortController().signal }, () => {});

/** Commands as the documents write them: in code, after a prompt, or in a script. */
const WRITTEN = /(?:`|^\$ |^|npx |&& )(?:npx )?rollcall ([a-z][^`\n|>#]*)/gm;

/** Why the command line would not understand this; null if it would. */
function complaint(words: readonly string[]): string | null {
  let command: Command = program;
  for (const word of words) {
    const sub = command.commands.find((each) => each.name() === word);
    if (sub) {
      command = sub;
      continue;
    }
    if (command === program) return `there is no command ${word}`;
    break;
  }
  // `events` is `events show`.
  command = command.commands.find((each) => each.name() === 'show') ?? command;
  const options = new Set(command.options.flatMap(({ long, short }) => [long, short]));
  const known = (word: string) => options.has(word) || /^--?(help|h)$/.test(word);
  const unknown = words.find((word) => /^--?[a-z]/.test(word) && !known(word.replace(/=.*/, '')));
  return unknown === undefined ? null : `${command.name()} has no ${unknown}`;
}

t.test('has every command that a document names, with its options', async (t) => {
  let seen = 0;
  for (const page of pages) {
    for (const [, line = ''] of read(page).matchAll(WRITTEN)) {
      // `rollcall` is also the name of a table's schema, a process, a package.
      const words = line.split(/\s+/).map((word) => word.replace(/[),.;:"\]]+$/, ''));
      seen += 1;
      const found = complaint(words.filter((word) => word !== '…' && word !== ''));
      if (found !== null) t.fail(`${page}: rollcall ${line.trim()}: ${found}`);
    }
  }
  t.ok(seen > 60, `${seen} commands`);
  t.equal(complaint(['plan', '--nwo', 'x']), 'plan has no --nwo', 'a wrong one would be found');
});

const ENV = { SHOP_WRITE_KEY: 'k', PERSONAS_WRITE_KEY: 'p', CRM_SECRET: 's' };
const HEAD = `sources: [{ id: shop, writeKey: k }, { id: personas, writeKey: p }]
destinations: [{ name: crm, sources: [personas], webhookUrl: "https://crm.example.com" }]\n`;

t.test('accepts the configurations of the guide', async (t) => {
  const blocks = guide.flatMap((page) => [...read(page).matchAll(/^```yaml\n((?:engines|audiences):.*?)^```/gms)]);
  t.ok(blocks.length >= 2);
  for (const [, yaml = ''] of blocks) {
    const config = parseConfig(HEAD + yaml, { file: 'guide', folder: ROOT, env: ENV });
    t.ok(config.audiences.length > 0);
  }
});

t.test('runs the commands of every page and compares outputs, except times and ids', async (t) => {
  for (const page of guide.slice(0, 5)) t.ok(actionsOf(read(page)).some(({ kind }) => kind === 'type'));
  const expected = ['run  …  done', 'took 3ms at 2026-01-01T00:00:00Z'];
  t.equal(difference(expected, 'run abc 1 done\ntook 12ms at 2027-02-03T04:05:06.789Z\n'), null);
  t.match(difference(expected, 'run abc 1 held\ntook 12ms at 2027-02-03T04:05:06.789Z'), /is not there/);
  t.match(difference(['one'], 'one\ntwo'), /more is printed/);
  t.equal(difference(['one', '…', 'four'], 'one\ntwo\nthree\nfour'), null);
});
