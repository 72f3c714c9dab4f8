import * as z from 'zod';
import { suggestion } from '../kernel/spelling.ts';
import { checkNamed, type OutlinedComputation } from './definition-references.ts';
import { traitKey } from './formats.ts';
import type { Mistake, Path } from './mistakes.ts';
import {
  canHaveSnapshots,
  defaultSnapshots,
  engineIn,
  engineNames,
  type FileOutline,
  homeOf,
  IMPLIED_SNAPSHOTS,
  isReadOnly,
  keyOf,
} from './outline.ts';

/** Names a part, with its place. */
type Describe = (path: Path) => string;

/** Mistakes between the parts of a file: duplicate names, and references to names that do not exist. */
export function checkReferences(file: FileOutline, describe: Describe): readonly Mistake[] {
  return [
    ...duplicates(file.sources, 'sources', 'id', describe),
    ...duplicates(file.sources, 'sources', 'writeKey', describe),
    ...duplicates(file.destinations, 'destinations', 'name', describe),
    ...duplicates(file.alerts?.notify ?? [], ['alerts', 'notify'], 'name', describe),
    ...checkTokens(file.admin),
    ...checkDestinations(file),
    ...checkSnapshots(file),
    ...checkComputations(file, describe),
    ...checkDefinitions(file),
    ...checkEventLog(file),
  ];
}

function duplicates<K extends string>(
  items: readonly (Readonly<Record<K, string>> | null)[],
  section: string | Path,
  field: K,
  describe: Describe,
): readonly Mistake[] {
  const path: Path = [section].flat();
  return items.flatMap((item, index) => {
    if (!item?.[field]) return [];
    const first = items.findIndex((other) => other?.[field] === item[field]);
    return first === index
      ? []
      : [{ path: [...path, index, field], message: `is the same as that of ${describe([...path, first])}` }];
  });
}

/** Each token needs a unique name for the audit log, and a unique secret for its rights. */
function checkTokens({ token, tokens }: FileOutline['admin']): readonly Mistake[] {
  const all = [...(token === '' ? [] : [{ name: 'admin', token }]), ...tokens];
  const offset = all.length - tokens.length;
  return all.flatMap((item, index) => {
    const path: Path = ['admin', 'tokens', index - offset];
    const isTaken = (field: 'name' | 'token') =>
      item !== null && item[field] !== '' && all.findIndex((other) => other?.[field] === item[field]) < index;
    return [
      ...(isTaken('name') ? [{ path: [...path, 'name'], message: 'is the name of another token' }] : []),
      ...(isTaken('token') ? [{ path: [...path, 'token'], message: 'is the same as another token' }] : []),
    ];
  });
}

function checkDestinations({ destinations, sources, audiences, traits }: FileOutline): readonly Mistake[] {
  const ids = sources.flatMap((source) => source?.id || []);
  const keys = [...audiences, ...traits].flatMap((item) => (item ? keyOf(item) : []));
  const columns = audiences.flatMap((item) => columnNames(item?.with));
  return destinations.flatMap((destination, index) => {
    if (!destination) return [];
    const path: Path = ['destinations', index];
    const urls = destination.webhooks?.map(({ url }) => url) ?? [];
    const repeated = urls.findIndex((url, place) => url !== '' && urls.indexOf(url) < place);
    return [
      ...exactlyOne(path, destination, 'webhooks', 'webhookUrl'),
      ...destination.sources.flatMap((source, place) => unknown([...path, 'sources', place], source, ids, 'source')),
      ...destination.audiences.flatMap((key, place) =>
        unknown([...path, 'audiences', place], key, keys, 'audience or trait'),
      ),
      ...Object.keys(destination.columns ?? {}).flatMap((name) =>
        unknown([...path, 'columns', name], name, columns, 'column'),
      ),
      ...(repeated < 0
        ? []
        : [{ path: [...path, 'webhooks', repeated, 'url'], message: 'is given twice in this destination' }]),
      ...checkSigning(path, destination),
    ];
  });
}

function checkEventLog({ eventLog, sources }: FileOutline): readonly Mistake[] {
  const ids = sources.flatMap((source) => source?.id || []);
  const named = eventLog?.sources ?? [];
  const ofBucket = eventLog?.path.startsWith('s3://') ? [] : ['region', 'endpoint', 'credentials', 'cache'];
  return [
    ...named.flatMap((source, index) => unknown(['eventLog', 'sources', index], source, ids, 'source')),
    ...ofBucket.flatMap((key) =>
      eventLog && key in eventLog
        ? [{ path: ['eventLog', key], message: 'is about a bucket: it goes with path: s3://BUCKET/PREFIX' }]
        : [],
    ),
  ];
}

/** Standard Webhooks need a key. A secret in their format must contain one. */
function checkSigning(
  path: Path,
  { signing, sharedSecret }: { readonly signing: string; readonly sharedSecret: readonly string[] },
): readonly Mistake[] {
  if (signing !== 'standard' && signing !== 'both') return [];
  if (sharedSecret.length === 0) return [{ path: [...path, 'signing'], message: 'needs a sharedSecret' }];
  const isHollow = (secret: string) => /^whsec_/.test(secret) && Buffer.from(secret.slice(6), 'base64').length === 0;
  if (!sharedSecret.some(isHollow)) return [];
  return [{ path: [...path, 'sharedSecret'], message: 'begins with whsec_ and must go on with the base64 of a key' }];
}

/** Snapshots of an engine that is only read are in one that is written to. */
function checkSnapshots(file: FileOutline): readonly Mistake[] {
  const names = Object.keys(file.engines);
  const engines = Object.fromEntries(
    names.flatMap((name) => ((engine) => (engine ? [[name, engine]] : []))(engineIn(file, name))),
  );
  const fit = Object.keys(engines).filter((name) => engines[name] && canHaveSnapshots(engines[name]));
  return Object.entries(engines).flatMap(([name, { type, snapshots }]): readonly Mistake[] => {
    const path: Path = ['engines', name, 'snapshots'];
    if (snapshots !== undefined && !fit.includes(snapshots)) {
      const what = names.includes(snapshots) ? 'can have no snapshots of others' : 'is not there';
      const message = `names the engine "${snapshots}", which ${what}. Name one of type duckdb or postgres without \`snapshots\`${suggestion(snapshots, fit)}`;
      return [{ path, message }];
    }
    if (snapshots !== undefined || !isReadOnly({ type })) return [];
    const home = defaultSnapshots(engines, file.store);
    if (home !== IMPLIED_SNAPSHOTS || !names.includes(home)) return [];
    return [{ path, message: `is required, since an engine of yours has the name ${home}` }];
  });
}

function checkComputations(
  { sources, engines, audiences, traits }: FileOutline,
  describe: Describe,
): readonly Mistake[] {
  const ids = sources.flatMap((source) => source?.id || []);
  const names = engineNames(engines);
  const taken = new Map<string, Path>();
  const check = (section: string, items: FileOutline['audiences'] | FileOutline['traits']): readonly Mistake[] =>
    items.flatMap((item, index) => {
      if (!item) return [];
      const path: Path = [section, index];
      return [
        ...unknown([...path, 'source'], item.source, ids, 'source'),
        ...unknown([...path, 'engine'], item.engine, names, 'engine'),
        ...checkKey(path, item, taken, describe),
      ];
    });
  return [...check('audiences', audiences), ...check('traits', traits)];
}

/** A definition is either SQL or short. Short ones refer to other audiences by key. */
function checkDefinitions(file: FileOutline): readonly Mistake[] {
  const [defaultEngine = ''] = engineNames(file.engines);
  const outlined = (['audiences', 'traits'] as const).flatMap((section) =>
    file[section].flatMap((item, index): readonly OutlinedComputation[] => {
      if (!item) return [];
      const { when = undefined, with: columns = undefined } = section === 'audiences' ? (item as OutlinedAudience) : {};
      const engine = item.engine || defaultEngine;
      return [
        {
          ...{ section, path: [section, index], key: keyOf(item), engine, home: homeOf(file, engine), when },
          ...{ isLive: isLive(item), isOpen: hasSql(item), columns: columnNames(columns) },
        },
      ];
    }),
  );
  const keys = new Set(outlined.map(({ key }) => key));
  const audiences = file.audiences.flatMap((item, index) => {
    if (!item) return [];
    const path = ['audiences', index];
    return [
      ...oneDefinition(path, item, 'when'),
      ...checkColumns(path, item, keys),
      ...checkLive(path, item),
      ...needsDialect([...path, 'when'], item, item.when, file),
    ];
  });
  const traits = file.traits.flatMap((item, index) => {
    if (!item) return [];
    const path = ['traits', index];
    return [
      ...oneDefinition(path, item, 'value'),
      ...checkLive(path, item),
      ...needsDialect([...path, 'value'], item, item.value, file),
    ];
  });
  return [...audiences, ...traits, ...checkNamed(outlined)];
}

type OutlinedAudience = NonNullable<FileOutline['audiences'][number]>;

const columnNames = (given: OutlinedAudience['with']) => (Array.isArray(given) ? given : Object.keys(given ?? {}));

/** Properties of events that are no columns. */
const EVENT_NAMES = ['audience_key', 'audience_name'];

/** Columns go as traits of their own, beside those of audiences and traits. */
function checkColumns(path: Path, item: OutlinedAudience, keys: ReadonlySet<string>): readonly Mistake[] {
  const { with: columns, sends, when } = item;
  if (columns === undefined) {
    return sends === undefined ? [] : [{ path: [...path, 'sends'], message: 'needs `with`, which names the columns' }];
  }
  const isList = Array.isArray(columns);
  const mistakes: Mistake[] = [];
  if (isList && !hasSql(item) && when !== undefined) {
    const message = 'is a map for a short definition, such as { email: { trait: email } }';
    mistakes.push({ path: [...path, 'with'], message });
  }
  if (!isList && hasSql(item)) {
    mistakes.push({ path: [...path, 'with'], message: 'is a list of columns of the SQL, such as [email]' });
  }
  for (const [place, name] of columnNames(columns).entries()) {
    const at = [...path, 'with', isList ? place : name];
    if (keys.has(name)) mistakes.push({ path: at, message: `is the key of an audience or trait, as ${name} is` });
    if (EVENT_NAMES.includes(name)) mistakes.push({ path: at, message: 'is a property that every event has' });
  }
  return mistakes;
}

function oneDefinition<K extends 'when' | 'value'>(
  path: Path,
  item: Readonly<Partial<Record<K | 'sql' | 'sqlFile' | 'dbt' | 'expect', unknown>>>,
  short: K,
): readonly Mistake[] {
  const [one, ...others] = (['sql', 'sqlFile', 'dbt', short] as const).filter((name) => item[name] !== undefined);
  if (one === undefined)
    return [{ path: [...path, 'sql'], message: `is required, or ${short}, sqlFile or dbt in its place` }];
  const mistakes: Mistake[] = others.map((name) => ({
    path: [...path, name],
    message: `cannot stand beside ${one}: give one of the two`,
  }));
  const { dbt, within } = z.looseObject({}).safeParse(item.expect).data ?? {};
  if (dbt !== undefined && item.dbt === undefined)
    mistakes.push({ path: [...path, 'expect', 'dbt'], message: 'needs `dbt`, which names the model' });
  if (within !== undefined && dbt === undefined)
    mistakes.push({ path: [...path, 'expect', 'within'], message: 'is the age of a build of dbt: needs `dbt: pass`' });
  return mistakes;
}

/** Checks live audiences, which are computed continuously from short definitions. */
function checkLive(
  path: Path,
  { live, sql, dbt, ...others }: Readonly<Partial<Record<'live' | 'sql' | 'dbt' | keyof typeof NOT_FOR_LIVE, unknown>>>,
): readonly Mistake[] {
  if (!isLive({ live })) return [];
  const mistakes: Mistake[] = [];
  if (hasSql({ sql, dbt }))
    mistakes.push({
      path: [...path, 'live'],
      message: 'needs a short definition (when or value): SQL is computed by schedule',
    });
  for (const [name, why] of Object.entries(NOT_FOR_LIVE) as [keyof typeof NOT_FOR_LIVE, string][]) {
    if (others[name] !== undefined)
      mistakes.push({ path: [...path, name], message: `is not for what is live, ${why}` });
  }
  return mistakes;
}

/** SQL, or a model of dbt, which is read with SQL. */
const hasSql = ({ sql, dbt }: { readonly sql?: unknown; readonly dbt?: unknown }) =>
  sql !== undefined || dbt !== undefined;

const isLive = ({ live }: { readonly live?: unknown }) => live === true || live === 'true';

/** Settings that would have no effect, with the reasons. */
const NOT_FOR_LIVE = {
  schedule: 'which is computed all the time',
  timezone: 'which is computed all the time and has no schedule',
  expect: 'which reads the event log and no other source; `guard` holds what changes too much',
} as const;

/** Short definitions compile only to the SQL of DuckDB and Postgres. */
function needsDialect(
  path: Path,
  { engine: given }: { readonly engine: string },
  short: unknown,
  file: FileOutline,
): readonly Mistake[] {
  const [defaultEngine = ''] = engineNames(file.engines);
  const name = given || defaultEngine;
  const engine = engineIn(file, name);
  if (short === undefined || !engine?.type || canHaveSnapshots(engine)) return [];
  const why = isReadOnly(engine) ? 'is only read' : `is of the type ${engine.type}`;
  const message = `needs an engine of the type duckdb or postgres; ${name} ${why}. Write it as SQL`;
  return [{ path, message }];
}

function checkKey(
  path: Path,
  item: { readonly name: string; readonly key: string },
  taken: Map<string, Path>,
  describe: Describe,
): readonly Mistake[] {
  if (item.name === '' && item.key === '') return [];
  const key = keyOf(item);
  if (key === '') {
    return [{ path: [...path, 'name'], message: 'has no letter or digit to make a key of. Set key beside it' }];
  }
  if (item.key === '' && !traitKey.safeParse(key).success) {
    const message = `gives the key ${key.slice(0, 30)}…, which is too long or has odd characters. Set key beside it`;
    return [{ path: [...path, 'name'], message }];
  }
  const other = taken.get(key);
  if (other === undefined) {
    taken.set(key, path);
    return [];
  }
  const field = item.key ? 'key' : 'name';
  return [
    {
      path: [...path, field],
      message: `gives the key ${key}, as ${describe(other)} does. Set another key on one of them`,
    },
  ];
}

function unknown(path: Path, given: string, known: readonly string[], what: string): readonly Mistake[] {
  if (given === '' || known.includes(given)) return [];
  return [{ path, message: `names the ${what} "${given}", which there is not${suggestion(given, known)}` }];
}

function exactlyOne<A extends string, B extends string>(
  path: Path,
  item: Readonly<Partial<Record<A | B, unknown>>>,
  one: A,
  other: B,
): readonly Mistake[] {
  if (item[one] === undefined && item[other] === undefined) return [{ path, message: `needs ${one} (or ${other})` }];
  if (item[one] === undefined || item[other] === undefined) return [];
  return [{ path: [...path, other], message: `cannot stand beside ${one}: give one of the two` }];
}
