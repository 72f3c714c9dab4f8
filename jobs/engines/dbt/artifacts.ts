import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { RollcallError } from '../../../src/kernel/errors.ts';

/** Bytes that a file of dbt may have: some hundred thousand nodes. */
const MOST_BYTES = 256 * 2 ** 20;

const id = z.string().min(1).max(1_000);

const node = z.object({
  ...{ resource_type: z.string(), name: id, package_name: id },
  relation_name: z.string().min(1).max(10_000).nullish(),
  checksum: z.object({ name: z.string(), checksum: z.string() }).nullish(),
  original_file_path: z.string().max(10_000).nullish(),
  version: z.union([z.string(), z.number()]).nullish(),
  latest_version: z.union([z.string(), z.number()]).nullish(),
  attached_node: z.string().nullish(),
  depends_on: z.object({ nodes: z.array(z.string()).nullish() }).nullish(),
});

const manifest = z
  .object({
    metadata: z.object({ dbt_version: z.string().nullish(), project_name: z.string().nullish() }),
    nodes: z.record(id, node),
  })
  .transform(({ metadata, nodes }) => ({
    ...metadata,
    // Others, such as those of macros' operations, are never asked for.
    nodes: Object.entries(nodes).flatMap(([uniqueId, each]) =>
      each.resource_type === 'model' || each.resource_type === 'test' ? [{ uniqueId, ...each }] : [],
    ),
  }));

const runResults = z
  .object({
    metadata: z.object({ generated_at: z.iso.datetime({ offset: true }).transform((at) => Date.parse(at)) }),
    args: z.object({ which: z.string().max(100).nullish() }).nullish(),
    results: z.array(z.object({ unique_id: id, status: z.string().max(100) })),
  })
  .transform(({ metadata, args, results }) => ({
    builtAt: metadata.generated_at,
    command: args?.which ?? null,
    results: new Map(results.map((each) => [each.unique_id, each])),
  }));

export type Manifest = z.output<typeof manifest>;
export type RunResults = z.output<typeof runResults>;

/** Content by path, with the state of the file that it was read from. */
const known = new Map<string, { readonly state: string; readonly content: Promise<unknown> }>();

/** Null if the file is absent. A file is read again once it has changed. */
async function read<S extends z.ZodType>(project: string, name: string, schema: S): Promise<z.output<S> | null> {
  const path = join(project, 'target', name);
  const file = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw unusable(path, error.message);
  });
  if (file === null) return null;
  if (!file.isFile()) throw unusable(path, 'it is no regular file');
  if (file.size > MOST_BYTES) throw unusable(path, `it is larger than ${MOST_BYTES / 2 ** 20} MiB`);
  const state = [file.ino, file.size, file.mtimeMs].join(' ');
  const before = known.get(path);
  if (before?.state === state) return before.content as Promise<z.output<S>>;
  const content = parse(path, schema);
  known.set(path, { state, content });
  // It may have been read while dbt wrote it.
  content.catch(() => known.delete(path));
  return content;
}

async function parse<S extends z.ZodType>(path: string, schema: S): Promise<z.output<S>> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw unusable(path, error instanceof SyntaxError ? 'it is no JSON. Is dbt writing it?' : (error as Error).message);
  }
  const { data, error } = schema.safeParse(content);
  if (error) throw unusable(path, `${error.issues[0]?.path.join('.')}: ${error.issues[0]?.message}`);
  return data;
}

export const readManifest = (project: string): Promise<Manifest | null> => read(project, 'manifest.json', manifest);

export const readRunResults = (project: string): Promise<RunResults | null> =>
  read(project, 'run_results.json', runResults);

const unusable = (path: string, why: string) => stale(`${path} cannot be used: ${why}`);

export function stale(message: string): RollcallError {
  return new RollcallError(
    'dbt_stale',
    `${message.replace(/[^.?]$/, '$&.')} Run \`dbt compile\` or \`dbt build\` there.`,
  );
}
