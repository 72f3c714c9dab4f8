import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';

t.setTimeout(240_000);

const ROOT = resolve(import.meta.dirname, '..');
const PAGE = join(ROOT, 'docs/architecture.md');
/** The road is what a reader can hold. */
const LONGEST_ROAD = 15;
/** On a busy machine some files of timers and retries run with a message, or don't: that must not fail the test. */
const slackOf = (count: number) => Math.max(8, Math.ceil(count / 10));
/** Folders of side streets that the page names. */
const NAMED = 8;

interface Walk {
  readonly key: string;
  readonly road: readonly string[];
  readonly counts: string;
}

/** Each begins with `### Title <!-- walk: KEY -->`, lists its road, and ends with the counts. */
function walksOf(page: string): readonly Walk[] {
  return page
    .split(/^### .+ <!-- walk: /m)
    .slice(1)
    .map((section) => ({
      key: /^\w+/.exec(section)?.[0] ?? '',
      road: [...section.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file = '']) => file),
      counts: /^\*\*\d+ files run\.\*\*(?:.|\n(?!\n))*/m.exec(section)?.[0] ?? '',
    }));
}

/** Files by folder, most first. */
function byFolder(files: readonly string[]): ReadonlyMap<string, number> {
  const folders = Map.groupBy(files, (file) => file.slice(0, file.lastIndexOf('/')));
  const sizes = [...folders].map(([folder, { length }]) => [folder, length] as const);
  return new Map(sizes.sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)));
}

function countsOf(ran: readonly string[], road: readonly string[]): string {
  const streets = ran.filter((file) => !road.includes(file));
  const named = [...byFolder(streets)].slice(0, NAMED);
  const rest = streets.length - named.reduce((sum, [, count]) => sum + count, 0);
  const list = named.map(([folder, count]) => `\`${folder}\` ${count}`).join(', ');
  const words = `**${ran.length} files run.** Side streets: ${list}, elsewhere ${rest}.`;
  return words.replaceAll(/(.{1,112})(?: |$)/g, '$1\n').trim();
}

/** A port has no code of its own. */
const isPort = (file: string) =>
  !/^(?:export )?(?:async )?(?:function|class)\b/m.test(readFileSync(join(ROOT, file), 'utf8'));

async function measure(): Promise<Readonly<Record<string, readonly string[]>>> {
  const { TEST_PROGRAMS: _, NODE_OPTIONS: __, ...env } = process.env;
  const counter = spawn(process.execPath, [join(import.meta.dirname, 'walks/count.ts')], { env });
  const [printed, complaints] = await Promise.all([text(counter.stdout), text(counter.stderr)]);
  if (printed === '') throw new Error(complaints);
  return JSON.parse(printed);
}

t.test('names places to change in the map that exist', async (t) => {
  const [, table = ''] = /^## Where to change …\n(.*?)^## /ms.exec(readFileSync(PAGE, 'utf8')) ?? [];
  const rows = [...table.matchAll(/^\| .+ \| `([^`]+)` \| `(\w+)` \|$/gm)];
  t.ok(rows.length > 15);
  for (const [, file = '', name = ''] of rows) {
    t.match(
      readFileSync(join(ROOT, file), 'utf8'),
      new RegExp(`(function|class|const|interface) ${name}\\b`),
      `${file} has ${name}`,
    );
  }
});

t.test('describes in each walk of the map what runs for one message', async (t) => {
  const measured = await measure();
  if (process.env['REFERENCE'] === 'write') {
    const page = readFileSync(PAGE, 'utf8');
    const written = walksOf(page).reduce(
      (text, { key, road, counts }) => text.replace(counts, () => countsOf(measured[key] ?? [], road)),
      page,
    );
    writeFileSync(PAGE, written);
  }
  const walks = walksOf(readFileSync(PAGE, 'utf8'));
  t.same(walks.map(({ key }) => key).sort(), Object.keys(measured).sort());
  for (const { key, road, counts } of walks) {
    const ran = measured[key] ?? [];
    t.ok(ran.length > 5 && road.length > 2 && road.length <= LONGEST_ROAD, `${key}: ${road.length} of ${ran.length}`);
    t.same(
      road.filter((file) => !ran.includes(file) && !isPort(file)),
      [],
      `every file of the road runs: ${key}`,
    );
    const stated = Number(/\d+/.exec(counts)?.[0]);
    t.ok(
      Math.abs(stated - ran.length) <= slackOf(stated),
      `${key}: ${ran.length} files ran; npm run reference writes the page`,
    );
    const folders = byFolder(ran.filter((file) => !road.includes(file)));
    for (const [, folder = '', count] of counts.matchAll(/`([^`]+)`\s(\d+)/g)) {
      t.ok(Math.abs(Number(count) - (folders.get(folder) ?? 0)) <= slackOf(Number(count)), `${key}: ${folder}`);
    }
  }
});
