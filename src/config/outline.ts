import snakeCase from 'lodash/snakeCase.js';
import * as z from 'zod';

/** The store of a file that names none. */
export const DEFAULT_STORE = 'sqlite:./rollcall.db';
/** The file of a DuckDB engine that names none. */
export const DEFAULT_SNAPSHOTS = './audiences.duckdb';
/** The engine of a file that names none. */
const DEFAULT_ENGINE = 'lake';

const word = z.string().catch('');
const words = z.array(word).catch([]);
const list = <S extends z.core.$ZodShape>(shape: S) =>
  z.array(z.union([z.object(shape), z.unknown().transform(() => null)])).catch([]);

const computation = {
  ...{ name: word, key: word, engine: word, source: word },
  ...{ sql: z.unknown().optional(), live: z.unknown().optional(), schedule: z.unknown().optional() },
  ...{ timezone: z.unknown().optional(), expect: z.unknown().optional() },
};

const outline = z.object({
  admin: z.object({ token: word, tokens: list({ name: word, token: word }) }).catch({ token: '', tokens: [] }),
  sources: list({ id: word, writeKey: word }),
  destinations: list({
    name: word,
    sources: words,
    audiences: words,
    webhooks: z
      .array(z.object({ url: word }))
      .optional()
      .catch([]),
    webhookUrl: word.optional(),
    signing: word,
    sharedSecret: z.union([z.string().transform((secret) => [secret]), words]),
  }),
  store: z
    .union([z.string(), z.object({ url: z.string().default(DEFAULT_STORE) }).transform(({ url }) => url)])
    .catch(DEFAULT_STORE),
  network: z.object({ ca: z.union([z.string().transform((path) => [path]), words]) }).catch({ ca: [] }),
  engines: z.record(z.string(), z.unknown()).catch({}),
  audiences: list({ ...computation, when: z.unknown().optional() }),
  traits: list({ ...computation, value: z.unknown().optional() }),
  eventLog: z.object({ sources: words }).optional().catch(undefined),
  alerts: z
    .object({ notify: list({ name: word }) })
    .optional()
    .catch(undefined),
});
/** As much of a file as the rules between its parts need; malformed parts are passed over here and reported elsewhere. */
export type FileOutline = z.output<typeof outline>;

/** Null where nothing can be read of it. */
export const outlineOf = (file: unknown): FileOutline | null => outline.safeParse(file).data ?? null;

const engineOutline = z.object({ type: word, url: word, path: z.string().default(DEFAULT_SNAPSHOTS).catch('') });

/** An engine of a file, as far as it can be read; undefined where there is none of this name. */
export function engineIn({ engines }: FileOutline, name: string): z.output<typeof engineOutline> | undefined {
  const all = Object.keys(engines).length > 0 ? engines : { [DEFAULT_ENGINE]: { type: 'duckdb' } };
  return Object.hasOwn(all, name) ? engineOutline.safeParse(all[name]).data : undefined;
}

/** The engines of a file, the default first; a file that names none has this one. */
export function engineNames(engines: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Object.keys(engines);
  return names.length > 0 ? names : [DEFAULT_ENGINE];
}

/** The trait's key that an audience's or computed trait's name gives (docs/wire.md). */
export function keyOf(computation: { readonly name: string; readonly key?: string | undefined }): string {
  return computation.key || snakeCase(computation.name);
}
