import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const recorded = (name: string) => readFileSync(new URL(`../../dbt/recorded/${name}`, import.meta.url), 'utf8');

interface Node {
  name: string;
  relation_name: string | null;
  checksum: { name: string; checksum: string };
  [setting: string]: unknown;
}

interface Manifest {
  readonly metadata: Record<string, unknown>;
  readonly nodes: Record<string, Node>;
}

interface Results {
  readonly metadata: { generated_at: string };
  readonly args: { which?: string };
  results: { unique_id: string; status: string; failures: number | null }[];
}

export const MODEL = 'model.analytics.big_spenders';

/** A dbt project as dbt 1.10 left it, in a folder. Its model is read from `spenders.csv`. */
export function dbtProject(folder: string) {
  const target = join(folder, 'target');
  mkdirSync(target, { recursive: true });
  let written = 0;
  const write = (name: string, content: unknown) => {
    const path = join(target, name);
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    // Two writes within a tick of the file system's clock.
    written += 1;
    utimesSync(path, written, written);
  };
  const project = {
    /** Writes the manifest with changes to the recorded one. */
    compiled(change: (model: Node, manifest: Manifest) => void = () => {}) {
      const manifest = JSON.parse(recorded('manifest.json')) as Manifest;
      const model = manifest.nodes[MODEL] as Node;
      model.relation_name = '"spenders.csv"';
      change(model, manifest);
      write('manifest.json', manifest);
    },
    /** Writes results of a build with other states. */
    built(states: Readonly<Record<string, string | null>> = {}, at = '2026-03-01T10:00:00.000000Z', which = 'build') {
      const results = JSON.parse(recorded('run_results.json')) as Results;
      results.metadata.generated_at = at;
      results.args.which = which;
      results.results = results.results.flatMap((each) => {
        const [, state] = Object.entries(states).find(([name]) => each.unique_id.includes(name)) ?? [];
        return state === null ? [] : [{ ...each, ...(state && { status: state }) }];
      });
      write('run_results.json', results);
    },
    write,
  };
  project.compiled();
  return project;
}
