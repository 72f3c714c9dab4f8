const DAY = 86_400_000;

/** SQL of an engine for the parts in which engines differ. */
export interface AudienceDialect {
  /** A member of a JSON object, as text or as a number. */
  readonly text: (column: string, name: string) => string;
  readonly number: (column: string, name: string) => string;
  /** A time (ISO 8601), so many days earlier. */
  readonly at: (time: string, daysBefore?: number) => string;
}

/** A person is the user id, or that of the user who was first identified with an anonymous id. */
const OWNERS = `(select anonymous_id, user_id as owner from (select anonymous_id, user_id,
    row_number() over (partition by anonymous_id order by timestamp, received_at, message_id) as place from events
    where type = 'identify' and anonymous_id is not null and user_id is not null) as links where place = 1)`;
/** SQL for what is known of people's events. */
export const people = (
  columns: string,
  condition: string,
) => `(select coalesce(e.user_id, o.owner) as person, ${columns}
  from events as e left join ${OWNERS} as o on o.anonymous_id = e.anonymous_id
  where ${condition} and coalesce(e.user_id, o.owner) is not null) as found`;

export interface YearAudience {
  readonly key: string;
  readonly when: object;
  /** SQL over the view `events` that means the same at a time. */
  readonly sql: (dialect: AudienceDialect, now: string) => string;
}

/** Audiences over the events of `eventOf`, as short definitions and as SQL of any engine. */
export const YEAR_AUDIENCES: readonly YearAudience[] = [
  {
    key: 'regular',
    when: { performed: 'Order Completed', atLeast: 2, within: '90 days' },
    sql: ({ at }, now) =>
      `select person from ${people(
        'e.message_id',
        `e.event = 'Order Completed' and e.timestamp > ${at(now, 90)} and e.timestamp <= ${at(now)}`,
      )} group by person having count(*) >= 2`,
  },
  {
    key: 'lapsed',
    when: { all: [{ performed: 'Order Completed' }, { not: { performed: 'Order Completed', within: '60d' } }] },
    sql: ({ at }, now) =>
      `select person from ${people('e.timestamp as happened', `e.event = 'Order Completed' and e.timestamp <= ${at(now)}`)}
      group by person having max(happened) <= ${at(now, 60)}`,
  },
  {
    key: 'generous',
    when: { performed: 'Order Completed', where: { 'properties.total': { gte: 30 }, 'properties.currency': 'USD' } },
    sql: ({ at, number, text }, now) =>
      `select distinct person from ${people('e.properties', `e.event = 'Order Completed' and e.timestamp <= ${at(now)}`)}
      where ${number('properties', 'total')} >= 30 and ${text('properties', 'currency')} = 'USD'`,
  },
  {
    key: 'pro',
    when: { trait: 'plan', is: 'pro' },
    sql: ({ at, text }, now) => `select person from (select person, plan, row_number() over (
      partition by person order by happened desc, received_at desc, message_id desc) as place from ${people(
        `${text('e.traits', 'plan')} as plan, e.timestamp as happened, e.received_at, e.message_id`,
        `e.type = 'identify' and e.timestamp <= ${at(now)} and e.traits like '%"plan"%'`,
      )}) as latest where place = 1 and plan = 'pro'`,
  },
];

/** The dates at which the audiences are compared, in days before or after the last event. */
export const YEAR_DATES = [-200, -100, -30, 20, 100];

/** A year of orders and of identifies, some of which are the first to know an anonymous id. */
export function eventOf(n: number, now: number): object {
  const person = (n * 7919) % 311;
  const timestamp = new Date(now - ((n * 104_729) % 365) * DAY - n * 1_000).toISOString();
  const ids = { messageId: `m${n}`, timestamp };
  if (n % 5 === 0) {
    const plan = ['pro', 'free', 'trial'][n % 3];
    return {
      ...ids,
      type: 'identify',
      userId: `u${person}`,
      anonymousId: `a${person % 97}`,
      traits: n % 4 === 0 ? { seen: n } : { plan },
    };
  }
  const who = n % 3 === 0 ? { anonymousId: `a${person % 97}` } : { userId: `u${person}` };
  const properties = { total: (n % 120) / 2, currency: n % 7 === 0 ? 'EUR' : 'USD' };
  return { ...ids, ...who, type: 'track', event: n % 2 === 0 ? 'Order Completed' : 'Viewed', properties };
}
