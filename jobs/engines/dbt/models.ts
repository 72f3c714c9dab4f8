import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import ms from 'ms';
import type { DbtModel } from '../../../src/config/config.ts';
import { readNamed } from '../../../src/config/files.ts';
import { nothingNamed } from '../../../src/kernel/spelling.ts';
import { type Manifest, type RunResults, readManifest, readRunResults, stale } from './artifacts.ts';

type Node = Manifest['nodes'][number];

/** A model as the project's manifest has it. */
interface ReadModel {
  readonly sql: string;
  /** Changes with the model's own file. */
  readonly checksum: string;
}

/**
 * The SQL that reads a model, and the version of the model's file.
 *
 * @throws RollcallError `dbt_stale`
 */
export async function readModel({ project, model }: DbtModel): Promise<ReadModel> {
  const manifest = await manifestOf(project);
  const found = find(manifest, project, model);
  if (!found.relation_name) {
    throw stale(`The dbt model ${model} has no relation: materialize it as a table or a view, not as ephemeral`);
  }
  checkFile(manifest, project, found);
  return { sql: `SELECT * FROM ${found.relation_name}`, checksum: found.checksum?.checksum ?? '' };
}

async function manifestOf(project: string): Promise<Manifest> {
  const manifest = await readManifest(project);
  if (manifest) return manifest;
  throw stale(`${project} has no target/manifest.json`);
}

/** Finds a model by its unique id or name, which means the latest of its versions. */
function find({ nodes }: Manifest, project: string, model: string): Node {
  const models = nodes.filter(({ resource_type }) => resource_type === 'model');
  const named = models.filter(({ name, uniqueId }) => name === model || uniqueId === model);
  const latest = named.filter(({ version, latest_version }) => version === latest_version);
  const [found, ...others] = named.length === 1 ? named : latest;
  if (found === undefined) {
    const names = models.map(({ name }) => name);
    throw stale(`${project}/target/manifest.json: ${nothingNamed('model', [model], names)}`);
  }
  if (others.length === 0) return found;
  const ids = [found, ...others].map(({ uniqueId }) => uniqueId).join(' or ');
  throw stale(`${project} has several models ${model}. Name one by its unique id: ${ids}`);
}

/** Refuses a manifest that is older than the model's file, unless only the manifest was copied here. */
function checkFile({ dbt_version, project_name }: Manifest, project: string, model: Node): void {
  const { checksum, original_file_path: path, package_name } = model;
  // dbt 1 hashes the text without white space around it.
  if (!path || checksum?.name !== 'sha256' || package_name !== project_name || !dbt_version?.startsWith('1.')) return;
  const text = textOf(resolve(project, path));
  if (text === null || createHash('sha256').update(text.trim()).digest('hex') === checksum.checksum) return;
  throw stale(`${project}: ${path} was edited since target/manifest.json was written`);
}

/** Null if it can't be read. */
function textOf(path: string): string | null {
  try {
    return readNamed(path);
  } catch {
    return null;
  }
}

/** Commands of dbt that build models. */
const BUILDS = new Set(['build', 'run', 'retry']);
const WANTED = 'expect.dbt wants a build that passed.';
/** Names in a reason. */
const MOST_NAMES = 5;

/**
 * The reason not to trust what the last build of dbt made of a model; null if there is none.
 *
 * @param within - how old it may be, in milliseconds
 * @param asOf - the run's time
 * @throws RollcallError `dbt_stale`
 */
export async function buildFault(
  { project, model }: DbtModel,
  { within }: { readonly within: number | null },
  asOf: number,
): Promise<string | null> {
  const manifest = await manifestOf(project);
  const built = await readRunResults(project);
  if (built === null) return `dbt has built nothing: there is no target/run_results.json; ${WANTED}`;
  const { command, builtAt } = built;
  if (command !== null && !BUILDS.has(command)) {
    return `The last command of dbt was ${JSON.stringify(command)}, which builds no models; ${WANTED}`;
  }
  if (within !== null && builtAt < asOf - within) {
    const at = new Date(builtAt).toISOString();
    return `The last build of dbt is old: it ended at ${at}; expect.within wants one of the last ${ms(within)}.`;
  }
  const node = find(manifest, project, model);
  const faults = faultsOf(manifest, built, node);
  if (faults.length === 0) return null;
  const more = faults.length > MOST_NAMES ? `, and ${faults.length - MOST_NAMES} more` : '';
  return `In the last build of dbt ${faults.slice(0, MOST_NAMES).join(', ')}${more}; ${WANTED}`;
}

/** The model and those of its tests that did not pass. Without a passed unit test dbt skips the model. */
function faultsOf({ nodes }: Manifest, { results }: RunResults, model: Node): readonly string[] {
  const { status } = results.get(model.uniqueId) ?? {};
  if (status !== 'success') return [`the model ${model.name} ${said(status)}`];
  return nodes.flatMap((test) => {
    if (!isTestOf(test, model)) return [];
    const result = results.get(test.uniqueId);
    if (result?.status === 'pass' || result?.status === 'warn') return [];
    return [`the test ${test.name} ${said(result?.status)}`];
  });
}

/** A test of several models is that of the one whose entry names it. One by SQL is of all that it reads. */
const isTestOf = ({ resource_type, attached_node, depends_on }: Node, { uniqueId }: Node) =>
  resource_type === 'test' && (attached_node ? attached_node === uniqueId : depends_on?.nodes?.includes(uniqueId));

const SAID: ReadonlyMap<string | undefined, string> = new Map([
  [undefined, 'was not run'],
  ['fail', 'failed'],
  ['error', 'ended with an error'],
  ['skipped', 'was skipped'],
]);

const said = (status: string | undefined) => SAID.get(status) ?? `ended as ${JSON.stringify(status)}`;
