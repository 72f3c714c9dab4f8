/**
 * The harness of all benchmarks. A benchmark is `bench/NAME.ts`, which calls {@link compare} with its contenders:
 *
 *     await compare({
 *       name: 'receiver-1kb',
 *       contenders: { bare: () => measure(…), ours: () => measure(…), peer: () => measure(…) },
 *       ratios: { 'ours / bare': ['ours', 'bare', 'perSecond'] },
 *     });
 *
 * Each contender runs once per round and returns its figures; the rounds are interleaved, the medians count.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

/** Figures of one run, e.g. `{ perSecond, cpuMicros, memoryMb }`. The same names for all contenders. */
export type Figures = Record<string, number>;

/** Runs a contender once, from a fresh start, and cleans up after itself. */
export type Contender = () => Promise<Figures>;

export interface Comparison {
  name: string;
  contenders: Record<string, Contender>;
  /** By label: the first contender's figure divided by the second one's, round by round. */
  ratios?: Record<string, [contender: string, to: string, figure: string]>;
}

const { values } = parseArgs({
  strict: false,
  options: {
    json: { type: 'boolean' },
    rounds: { type: 'string' },
    only: { type: 'string' },
    before: { type: 'string' },
  },
});

/** The contenders asked for with `--only a,b`; null without the option. */
export const only: readonly string[] | null = typeof values['only'] === 'string' ? values['only'].split(',') : null;

/**
 * The `bench/` of another checkout, of `--before DIR`, which becomes one more contender. The processes of that contender run
 * from there, so that each product has a `bench/` that fits it; both must take the same orders.
 */
export const before: URL | undefined =
  typeof values['before'] === 'string' ? pathToFileURL(`${resolve(values['before'], 'bench')}/`) : undefined;

/** Rounds asked for with `--rounds` (at least 1; 3 without the option). */
export const rounds = Math.max(1, Number(values['rounds'] ?? 3) || 3);

export const median = (numbers: readonly number[]): number => {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};

const rounded = (figure: number) => Number(figure.toPrecision(4));

/** The size of bodies in a contender's name. */
const SIZE = / [\d.]+ KB/;

/** In turn, starting with another contender each round, so that no one always runs on a warm or a tired machine. */
async function runRounds(contenders: [string, Contender][]): Promise<Map<string, Figures[]>> {
  const runs = new Map<string, Figures[]>(contenders.map(([name]) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (let i = 0; i < contenders.length; i += 1) {
      const [name, run] = contenders[(i + round) % contenders.length]!;
      console.error(`round ${round + 1}/${rounds}: ${name}`);
      runs.get(name)!.push(await run());
    }
  }
  return runs;
}

function medians(runs: Figures[]): Figures {
  const names = Object.keys(runs[0] ?? {});
  return Object.fromEntries(names.map((name) => [name, rounded(median(runs.map((run) => run[name] ?? Number.NaN)))]));
}

interface Quotient {
  readonly median: number;
  /** The standard error of the mean; not a number with one round. */
  readonly error: number;
}

/** Of the runs of the same round, which the drift of the machine's speed has hit alike. */
function quotientOf(runs: Figures[], others: Figures[], figure: string): Quotient {
  const each = runs.map((run, round) => (run[figure] ?? Number.NaN) / (others[round]?.[figure] ?? Number.NaN));
  const mean = each.reduce((sum, value) => sum + value, 0) / each.length;
  const squares = each.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const error = Math.sqrt(squares / (each.length - 1) / each.length);
  return { median: rounded(median(each)), error: rounded(error) };
}

/**
 * Runs all contenders for `--rounds` rounds, prints the table of medians and, with `--json`, one line
 * `{"name","rows":[{"contender",…}],"ratios":{…}}` last. `--only a,b` leaves the others out;
 * a name without its size stands for all sizes.
 *
 * @returns the medians by contender
 */
export async function compare({ name, contenders, ratios = {} }: Comparison): Promise<ReadonlyMap<string, Figures>> {
  const names = Object.keys(contenders);
  const means = (wanted: string, contender: string) => [contender, contender.replace(SIZE, '')].includes(wanted);
  const unknown = only?.filter((wanted) => !names.some((each) => means(wanted, each))) ?? [];
  if (unknown.length > 0) {
    console.error(`--only ${unknown.join(',')}: ${name} has no such contender. It has: ${names.join(', ')}.`);
    process.exitCode = 2;
    return new Map();
  }
  const isWanted = (each: string) => only?.some((wanted) => means(wanted, each)) ?? true;
  const runs = await runRounds(Object.entries(contenders).filter(([each]) => isWanted(each)));
  const rows = new Map([...runs].map(([contender, figures]) => [contender, medians(figures)]));
  const quotients: Record<string, Quotient> = {};
  for (const [label, [a, b, figure]] of Object.entries(ratios)) {
    const quotient = quotientOf(runs.get(a) ?? [], runs.get(b) ?? [], figure);
    if (!Number.isNaN(quotient.median)) quotients[label] = quotient;
  }
  console.log(`\n${name} (median of ${rounds}; ${machine()})`);
  console.table(Object.fromEntries(rows));
  if (Object.keys(quotients).length > 0) console.table(quotients);
  if (values['json'] !== true) return rows;
  const list = [...rows].map(([contender, figures]) => ({ contender, ...figures }));
  const numbers = Object.fromEntries(Object.entries(quotients).map(([label, each]) => [label, each.median]));
  console.log(JSON.stringify({ name, rows: list, ratios: numbers }));
  return rows;
}

/** Reports figures beyond their limits. With any, the benchmark ends with 1. */
export function insist(rows: ReadonlyMap<string, Figures>, limitsOf: (contender: string) => Figures | undefined): void {
  for (const [contender, figures] of rows) {
    for (const [figure, limit] of Object.entries(limitsOf(contender) ?? {})) {
      if ((figures[figure] ?? 0) <= limit) continue;
      console.error(`${contender}: ${figure} is ${figures[figure]}, the limit is ${limit}`);
      process.exitCode = 1;
    }
  }
}

/** The machine in one line, for `bench/RESULTS.md`. */
export function machine(): string {
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} × ${cpus()[0]?.model.trim()}, ${gigabytes} GB, Node ${process.version}`;
}

/** A child process of a benchmark: a server, a sink, a contender that must have a heap of its own. */
export interface Part {
  pid: number;
  /** The message that it sent with `process.send` when it was ready. */
  ready: unknown;
  process: ChildProcess;
  stop(): Promise<void>;
}

/** How `deploy/` has Node run the service. */
export const DEPLOYED: readonly string[] = ['--max-semi-space-size=16'];
/** The heap that Node allows itself in a container of 512 MB, the limit in `deploy/kubernetes`. */
export const IN_CONTAINER = '--max-old-space-size=256';

/**
 * Starts `file` with Node and waits for its first `process.send(…)`; it ends with {@link Part.stop}.
 *
 * @param options - Node's, beside those that this process has
 */
export async function startPart(
  file: string | URL,
  args: string[] = [],
  options: readonly string[] = [],
): Promise<Part> {
  const execArgv = [...process.execArgv, ...options];
  const child = fork(file, args, { stdio: ['ignore', 2, 2, 'ipc'], execArgv });
  const exited = once(child, 'exit');
  const ready = await Promise.race([
    once(child, 'message').then(([message]) => message),
    exited.then(([code]) => Promise.reject(new Error(`${file} ended with ${code} before it was ready`))),
  ]);
  return {
    pid: child.pid as number,
    ready,
    process: child,
    async stop() {
      child.kill();
      await exited;
    },
  };
}

const microsPerTick = 10_000;

function statOf(pid: number): { parent: number; micros: number } | undefined {
  try {
    // The name, in parentheses, may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
      .map(Number);
    return { parent: fields[1]!, micros: (fields[11]! + fields[12]! + fields[13]! + fields[14]!) * microsPerTick };
  } catch {
    return undefined;
  }
}

/** Processes and all their descendants. */
export function familyOf(pids: readonly number[]): readonly number[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  const parents = new Map(all.map((pid) => [pid, statOf(pid)?.parent ?? 0]));
  const belongs = (pid: number): boolean => pids.includes(pid) || (pid > 1 && belongs(parents.get(pid) ?? 0));
  return all.filter(belongs);
}

/** CPU time in microseconds of processes and all their descendants so far, the ended ones that were waited for too. */
export function cpuOf(pids: readonly number[]): number {
  return familyOf(pids).reduce((sum, pid) => sum + (statOf(pid)?.micros ?? 0), 0);
}

/** Starts counting the CPU time of processes (Linux, in steps of 10 ms); the returned function tells microseconds. */
export function countCpu(pids: readonly number[] = [process.pid]): () => number {
  const before = cpuOf(pids);
  return () => cpuOf(pids) - before;
}

/** Highest resident memory of a process so far, in MB (Linux). */
export function peakMemoryMb(pid: number = process.pid): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? Number.NaN) / 1024;
}
