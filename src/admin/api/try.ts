import * as z from 'zod';
import { type Sync, TRIAL_PARTS, type Trial } from '../../../jobs/index.ts';
import type { AudienceConfig, Config, TraitConfig } from '../../config/config.ts';
import { ACTIVITY_KINDS } from '../../definition/definition.ts';
import { sentencesIn } from '../../definition/sentence.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { toYaml } from '../../kernel/yaml.ts';
import { configuredAudience } from './audiences.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { iso, time } from './shapes.ts';

const body = z.object({
  draft: z
    .union([z.string().max(200_000), z.record(z.string(), z.unknown())])
    .describe('YAML or JSON of one audience or trait, as in the configuration: the item, or a list under its section.'),
  edits: z.string().optional().describe('The key that it takes the place of; unless given, that of the draft itself.'),
  parts: z
    .array(z.enum(TRIAL_PARTS))
    .default([...TRIAL_PARTS])
    .describe('What to compute. Each takes a query of its own; without any, only mistakes and SQL are returned.'),
});

const mistake = z.object({
  path: z.string(),
  line: z.int().nullable(),
  column: z.int().nullable(),
  message: z.string(),
});

const trial = z.object({
  mistakes: z.array(mistake).describe('As `config check` finds them. With any, nothing is computed.'),
  warnings: z.array(mistake),
  key: z.string().nullable(),
  kind: z.enum(['audience', 'trait']).nullable(),
  engine: z.string().nullable(),
  draft: z.unknown().describe('The item as it is written.'),
  yaml: z.string().nullable().describe('A file for `include`, to commit.'),
  sql: z.string().nullable().describe('`$now` is the time of the run.'),
  sentences: z
    .record(z.string(), z.string())
    .describe('Each condition and step of a short definition in words, by path.'),
  failure: z
    .object({ code: z.string(), message: z.string() })
    .nullable()
    .describe('The error of the definition itself, such as that of its SQL.'),
  people: z
    .object({
      members: z.int(),
      invalid: z.int(),
      duplicates: z.int(),
      columns: z.array(z.string()),
      unnamed: z.array(z.string()),
      funnel: z
        .array(
          z.object({
            path: z.string(),
            condition: z.string(),
            people: z.int().nullable().describe('Null where counting would read everybody in the log.'),
            left: z.int().nullable().describe('Those who pass all conditions until here; null for a part of one.'),
          }),
        )
        .nullable()
        .describe('Null for SQL.'),
      sample: z.array(
        z.object({
          userId: z.string(),
          value: z.unknown().describe('The traits of a trait, or the columns of an audience.'),
          why: z
            .array(
              z.object({
                path: z.string(),
                times: z.int().nullable().describe('How often they did it, in its window.'),
                last: time.nullable(),
                value: z.unknown(),
              }),
            )
            .describe('Of a short definition: each condition and step of which the log knows something.'),
        }),
      ),
    })
    .nullable(),
  difference: z
    .object({
      key: z.string(),
      before: z.int().describe('Members as receivers know them.'),
      entered: z.int(),
      exited: z.int(),
      changed: z.int(),
      held: z.string().nullable().describe('Why a guard would hold it.'),
      sample: z.array(z.object({ userId: z.string(), change: z.enum(['entered', 'exited', 'changed']) })),
    })
    .nullable()
    .describe('To what it edits; null for something new.'),
  overlap: z
    .array(
      z.object({
        key: z.string(),
        name: z.string(),
        members: z.int().nullable(),
        both: z.int().nullable(),
        because: z.string().nullable().describe('Why it was not compared.'),
      }),
    )
    .nullable()
    .describe('With other audiences as last synced.'),
  past: z
    .array(z.object({ at: time, members: z.int() }))
    .nullable()
    .describe(
      'Sizes in the last 30 days, computed from the log as it is now. Days that would take too long are missing.',
    ),
  pastless: z.string().nullable().describe('Why there is no past.'),
});

const names = z.object({
  sources: z.array(z.string()),
  engines: z.array(z.string()),
  computed: z.array(z.object({ key: z.string(), kind: z.enum(['audience', 'trait']) })),
  events: z.array(z.object({ kind: z.enum(ACTIVITY_KINDS), name: z.string(), properties: z.array(z.string()) })),
  traits: z.array(z.string()),
});

const tag = 'Trying definitions';
const NOTHING = {
  ...{
    mistakes: [],
    warnings: [],
    key: null,
    kind: null,
    engine: null,
    draft: null,
    yaml: null,
    sql: null,
    failure: null,
    sentences: {},
  },
  ...{ people: null, difference: null, overlap: null, past: null, pastless: null },
};

type Placed = z.input<typeof mistake>;

export interface TryParts {
  readonly sync: Pick<Sync, 'tryOut' | 'names'>;
  readonly config: () => Config;
  /** Checks a draft as if it were in the configuration, in place of the item of that key. */
  readonly parseDraft: (
    text: string,
    edits: string | null,
  ) => {
    readonly computation: AudienceConfig | TraitConfig | null;
    readonly written: { readonly section: string; readonly item: unknown } | null;
    readonly mistakes: readonly Placed[];
    readonly warnings: readonly Placed[];
  };
}

export function tryRoutes(routes: ApiRoutes, { sync, config, parseDraft }: TryParts): void {
  ordering(routes, '/try', {
    summary: 'Try a definition before it is in the configuration: writes and sends nothing',
    description: 'SQL needs a token that may `query` too.',
    tag,
    body,
    answer: trial,
    may: 'read',
    engine: 'plan',
    deed: ({ body: { edits } }) => ({ action: 'try', target: edits ?? null }),
    async handle({ body: { draft, edits, parts }, caller, signal }) {
      if (edits !== undefined) configuredAudience(edits, config());
      const text = typeof draft === 'string' ? draft : JSON.stringify(draft);
      const { computation, written, ...found } = parseDraft(text, edits ?? null);
      const read = {
        mistakes: found.mistakes.map(placed),
        warnings: found.warnings.map(placed),
        ...(written && { draft: written.item, yaml: toYaml({ [written.section]: [written.item] }) }),
      };
      if (computation === null) return { ...NOTHING, ...read };
      const { key, kind, engine, sql } = computation;
      if (sql !== undefined && !caller.may.includes('query')) {
        const message = `The token ${caller.name} may not query: SQL is tried with admin.token, or the token that Rollcall made.`;
        throw new RollcallError('forbidden', message);
      }
      const tried = await sync.tryOut({ draft: computation, edits: edits ?? null, parts, signal });
      const when = computation.kind === 'audience' ? computation.when : undefined;
      const sentences = when ? Object.fromEntries(sentencesIn(when)) : {};
      return { ...NOTHING, ...read, key, kind, engine, sentences, ...trialLine(tried) };
    },
  });
  reading(routes, '/try/names', {
    summary: 'Names that a definition may use: of the configuration, and those that the event log has seen lately',
    description: 'Of events in the last 30 days; of properties and traits in the newest 20,000 messages.',
    tag,
    answer: names,
    engine: 'look',
    handle: async ({ request: { signal } }) => ({
      ...configuredNames(config()),
      ...seenNames(await sync.names(signal)),
    }),
  });
}

const placed = ({ path, line, column, message }: Placed) => ({ path, line, column, message });
const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text));

function trialLine({ people, past, ...rest }: Trial) {
  return {
    ...rest,
    people: people && {
      ...people,
      sample: people.sample.map(({ userId, value, why }) => ({
        userId,
        value: parsed(value),
        why: why.map((each) => ({
          ...each,
          last: each.last === null ? null : iso(each.last),
          value: parsed(each.value),
        })),
      })),
    },
    past: past?.map(({ at, members }) => ({ at: iso(at), members })) ?? null,
  };
}

function configuredNames({ sources, engines, audiences, traits }: Config) {
  return {
    sources: sources.map(({ id }) => id),
    engines: Object.keys(engines),
    computed: [...audiences, ...traits].map(({ key, kind }) => ({ key, kind })),
  };
}

function seenNames(found: Awaited<ReturnType<TryParts['sync']['names']>>) {
  const sorted = (all: readonly string[]) => [...new Set(all)].toSorted();
  const events = Map.groupBy(
    found.flatMap((each) => (each.kind === 'identify' || each.of === '' ? [] : { ...each, kind: each.kind })),
    ({ kind, of }) => `${kind} ${of}`,
  );
  return {
    events: [...events.values()]
      .flatMap(([first, ...rest]) => {
        if (!first) return [];
        const properties = sorted([first, ...rest].flatMap(({ key }) => key ?? []));
        return { kind: first.kind, name: first.of, properties };
      })
      .toSorted((one, other) => (one.name < other.name ? -1 : 1)),
    traits: sorted(found.flatMap(({ kind, key }) => (kind === 'identify' && key !== null ? key : []))),
  };
}
