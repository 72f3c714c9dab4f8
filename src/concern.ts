const MINUTE = 60_000;

/** A setting of one rule: a number, given as a count, a duration or a percentage. */
interface RuleSetting {
  readonly form: 'count' | 'duration' | 'percent';
  /** Milliseconds, for a duration. */
  readonly initial: number;
  readonly meaning: string;
}

/** An alert rule, and how the pages show its concerns. Its condition is in src/admin/concerns.ts. */
interface Rule {
  /** A sentence for the docs and the schema. */
  readonly when: string;
  /** Milliseconds that it must last before people are alerted, unless the configuration sets another time. */
  readonly after: number;
  readonly settings?: Readonly<Record<string, RuleSetting>>;
  /** Titles of announcements; `many` follows a number. */
  readonly one: string;
  readonly many: string;
  /** Follows “3 more” on the overview, if `many` does not. */
  readonly these?: string;
  readonly tone: 'warn' | 'bad';
  /** The page about one; the subject is appended. */
  readonly page: string;
  /** The page that announcements link to, if it is another. */
  readonly link?: string;
  /** The page about all. */
  readonly all: string;
  /** The section of docs/incidents.md that says what to do. */
  readonly incident: string;
  /** The command that shows more, for `rollcall doctor`, unless doctor checks for it itself. */
  readonly command?: (subject: string) => string;
}

/** Every alert rule; those that stop deliveries come first. */
const TABLE = {
  endpointDead: {
    when: 'An endpoint takes nothing: it does not answer, or answers each request with an error such as 500.',
    after: MINUTE,
    one: 'An endpoint is down',
    many: 'endpoints are down',
    tone: 'bad',
    page: '/endpoints/',
    all: '/endpoints?state=dead',
    incident: 'An endpoint is dead',
  },
  endpointRefusing: {
    when: 'An endpoint refuses everything: its URL, certificate or secret seems to be wrong.',
    after: 0,
    one: 'An endpoint refuses everything',
    many: 'endpoints refuse everything',
    tone: 'bad',
    page: '/endpoints/',
    all: '/endpoints?state=refusing',
    incident: 'An endpoint refuses everything',
  },
  endpointPaused: {
    when: 'An endpoint is paused, by a person or by its own 410.',
    after: 0,
    one: 'An endpoint is paused',
    many: 'endpoints are paused',
    tone: 'warn',
    page: '/endpoints/',
    all: '/endpoints?state=paused',
    incident: 'An endpoint is paused',
  },
  deadLetters: {
    when: 'A destination has dead letters, more than `moreThan`.',
    after: MINUTE,
    settings: { moreThan: { form: 'count', initial: 0, meaning: 'Only with more of them.' } },
    one: 'A destination has dead letters',
    many: 'destinations have dead letters',
    tone: 'bad',
    page: '/dead-letters?destination=',
    all: '/dead-letters',
    incident: 'There are dead letters',
  },
  queueFull: {
    when: 'A destination has `store.maxQueued` untried deliveries, and what is new for it is held out.',
    after: MINUTE,
    one: 'A queue is full',
    many: 'queues are full',
    tone: 'bad',
    page: '/dead-letters?reason=queue_full&destination=',
    link: '/dead-letters?destination=',
    all: '/dead-letters?reason=queue_full',
    incident: 'The backlog grows',
  },
  backlogOld: {
    when: 'A delivery has waited for its first try for longer than `olderThan`, although an endpoint is open.',
    after: 0,
    settings: { olderThan: { form: 'duration', initial: 15 * MINUTE, meaning: 'How long the oldest may wait.' } },
    one: 'Deliveries wait for too long',
    many: 'destinations have deliveries that wait for too long',
    these: 'destinations do not keep up',
    tone: 'warn',
    page: '/endpoints?find=',
    all: '/endpoints',
    incident: 'The backlog grows',
    command: () => 'endpoints list',
  },
  sourceDiscards: {
    when: 'Of what a source sent in the last ten minutes, more than `moreThan` was not taken, and 20 messages at least.',
    after: MINUTE,
    settings: {
      moreThan: {
        form: 'percent',
        initial: 10,
        meaning: 'The part of its messages of ten minutes that counts as much.',
      },
    },
    one: 'Much of what a source sends is not taken',
    many: 'sources send much that is not taken',
    these: 'sources send what is not taken',
    tone: 'warn',
    page: '/sources?source=',
    all: '/sources',
    incident: "A source's messages are rejected",
    command: (source) => `discards --source ${source}`,
  },
  runHeld: {
    when: 'A run is held for a person, by a guard or an expectation.',
    after: 0,
    one: 'A run is held',
    many: 'runs are held',
    tone: 'warn',
    page: '/audiences/',
    all: '/audiences?state=held',
    incident: 'A run is held',
  },
  runFailed: {
    when: 'A run has failed.',
    after: 0,
    one: 'A run failed',
    many: 'audiences or traits failed',
    these: 'audiences fail',
    tone: 'bad',
    page: '/audiences/',
    all: '/audiences?state=failed',
    incident: 'A run failed, or is overdue',
    command: (key) => `runs ${key} -n 1`,
  },
  runOverdue: {
    when:
      'An audience was due two minutes ago and nothing began, also one that never ran since the configuration was written, ' +
      'or a live one is more than two minutes behind.',
    after: 5 * MINUTE,
    one: 'A run is overdue',
    many: 'runs are overdue',
    these: 'audiences are overdue',
    tone: 'warn',
    page: '/audiences/',
    all: '/audiences',
    incident: 'A run failed, or is overdue',
    command: (key) => `runs ${key} -n 1`,
  },
  unusualSize: {
    when: 'A run left an audience or trait with another size than usual, or the first ones found nobody (docs/alerts.md#sizes).',
    after: 0,
    settings: { by: { form: 'percent', initial: 30, meaning: 'How far off the usual size it must be at least.' } },
    one: 'An audience has an unusual size',
    many: 'audiences have unusual sizes',
    these: 'audiences have an unusual size',
    tone: 'warn',
    page: '/audiences/',
    all: '/audiences',
    incident: 'An audience has an unusual size',
    command: (key) => `runs ${key}`,
  },
  eventLogStuck: {
    when: "The event log's folder or bucket fails, so that nothing is sealed, merged, dropped or deleted there.",
    after: 5 * MINUTE,
    one: 'The event log is stuck',
    many: 'event logs are stuck',
    tone: 'bad',
    page: '/events?about=',
    link: '/events',
    all: '/events',
    incident: 'The event log is stuck',
    command: () => 'doctor',
  },
  audienceOrphaned: {
    when: 'An audience is gone from the configuration and was not retired.',
    after: 5 * MINUTE,
    one: 'An audience is gone from the configuration',
    many: 'audiences are gone from the configuration',
    these: 'audiences are no longer configured',
    tone: 'warn',
    page: '/audiences/',
    all: '/audiences?state=orphaned',
    incident: 'An audience is orphaned',
  },
} satisfies Readonly<Record<string, Rule>>;

export type ConcernKind = keyof typeof TABLE;
export const RULES: Readonly<Record<ConcernKind, Rule>> = TABLE;
export const CONCERNS = Object.keys(TABLE) as readonly ConcernKind[];

export type RuleSettings<K extends ConcernKind> = (typeof TABLE)[K] extends { settings: infer S }
  ? { readonly [Name in keyof S]: number }
  : unknown;

/** A condition that needs a person, while it lasts. */
export interface Concern {
  readonly kind: ConcernKind;
  /** The thing it is about. There is only one concern of the same kind and subject. */
  readonly subject: string;
  readonly destination?: string;
  readonly audience?: string;
  readonly source?: string;
  readonly run?: string;
  /** ISO 8601; null if unknown. */
  readonly since: string | null;
  readonly message: string;
  /** For an unusual size: the range of usual ones. */
  readonly usual?: { readonly low: number; readonly high: number };
}
