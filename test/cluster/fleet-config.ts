import { ADMIN } from '../helpers/admin.ts';

/** Differences between the configurations of a fleet. */
export interface Variant {
  readonly erp: 'enabled' | 'disabled' | 'removed';
  readonly extra: boolean;
  readonly url: 'crm' | 'crm-2';
  readonly secret: 'one' | 'two';
  readonly sql: 'low' | 'high';
  /** Of an audience that keeps its SQL. */
  readonly name: 'vip' | 'stars';
}

/** Everything is there: what any of the others has accepted can be delivered. */
export const WHOLE: Variant = {
  ...{ erp: 'enabled', extra: true, url: 'crm', secret: 'one' },
  ...{ sql: 'high', name: 'stars' },
};

const CHOICES: { readonly [Part in keyof Variant]: readonly Variant[Part][] } = {
  erp: ['enabled', 'disabled', 'removed'],
  extra: [true, false],
  url: ['crm', 'crm-2'],
  secret: ['one', 'two'],
  sql: ['low', 'high'],
  name: ['vip', 'stars'],
};

/** @param random - a whole number from 1 to what is given */
export function randomVariant(random: (most: number) => number): Variant {
  const pick = <T>(of: readonly T[]): T => of[random(of.length) - 1] as T;
  return {
    erp: pick(CHOICES.erp),
    extra: pick(CHOICES.extra),
    url: pick(CHOICES.url),
    secret: pick(CHOICES.secret),
    sql: pick(CHOICES.sql),
    name: pick(CHOICES.name),
  };
}

const USERS = { low: [0, 9], high: [5, 14], same: [0, 4] } as const;
const range = ([first, last]: readonly [number, number]) =>
  Array.from({ length: last - first + 1 }, (_, index) => `u${first + index}`).sort();
export const usersOf = (set: keyof typeof USERS): string[] => range(USERS[set]);
const sqlOf = (set: keyof typeof USERS) =>
  `select 'u' || n as user_id from (values ${USERS_UP_TO_14}) as t (n) where n between ${USERS[set].join(' and ')}`;
const USERS_UP_TO_14 = Array.from({ length: 15 }, (_, n) => `(${n})`).join(', ');

export const SECRETS = { one: 'the first secret', two: 'the second secret' } as const;

export interface Surroundings {
  readonly store: string;
  readonly engine: object;
  readonly receiver: string;
  readonly removedAfter: string;
}

/** Names of the destinations that a message of `shop` goes to. */
export function served({ erp, extra }: Variant): string[] {
  return ['crm', ...(erp === 'enabled' ? ['erp'] : []), ...(extra ? ['extra'] : [])];
}

/** The configuration file: JSON is YAML. */
export function fileOf(variant: Variant, { store, engine, receiver, removedAfter }: Surroundings): string {
  const first = SECRETS[variant.secret];
  const destination = (name: string, path = name, enabled = true) => ({
    ...{ name, enabled, sources: name === 'erp' ? ['shop'] : ['shop', 'personas'] },
    sharedSecret: [first, ...Object.values(SECRETS).filter((secret) => secret !== first)],
    webhooks: [{ url: `${receiver}/${path}` }],
  });
  const audience = (name: string, set: keyof typeof USERS) => ({
    ...{ name, source: 'personas', schedule: '*/2 * * * * *', sql: sqlOf(set) },
    guard: { allowEmpty: true },
  });
  return JSON.stringify({
    ...{ store, engines: { lake: engine }, listen: { host: '127.0.0.1', port: 0 }, log: { level: 'warn' } },
    network: { allow: ['127.0.0.0/8'] },
    admin: ADMIN,
    delivery: { removedAfter },
    sources: ['shop', 'personas'].map((id) => ({ id, writeKey: `${id}-key` })),
    destinations: [
      destination('crm', variant.url),
      ...(variant.erp === 'removed' ? [] : [destination('erp', 'erp', variant.erp === 'enabled')]),
      ...(variant.extra ? [destination('extra')] : []),
    ],
    audiences: [audience('big', variant.sql), audience(variant.name, 'same')],
  });
}
