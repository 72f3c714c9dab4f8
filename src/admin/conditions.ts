import type { AudienceStatus } from '../../jobs/index.ts';
import type { Backlog } from '../store/port.ts';
import type { EndpointStatus } from './endpoints.ts';

export const CONDITIONS = [
  'endpointDead',
  'endpointRefusing',
  'endpointPaused',
  'deadLetters',
  'queueFull',
  'runHeld',
  'runFailed',
  'audienceOrphaned',
] as const;
type ConditionKind = (typeof CONDITIONS)[number];

/** Something that needs a person, for as long as it is so. */
interface Condition {
  readonly kind: ConditionKind;
  /** What it is about: of the same kind and subject there is only one. */
  readonly subject: string;
  readonly destination?: string;
  readonly audience?: string;
  readonly run?: string;
  /** ISO 8601; null where nobody knows. */
  readonly since: string | null;
  readonly message: string;
}

interface Standing {
  readonly endpoints: readonly EndpointStatus[];
  readonly backlogs: readonly Backlog[];
  readonly audiences: readonly AudienceStatus[];
}

/** All that needs a person now: what stops deliveries first. */
export function conditionsOf({ endpoints, backlogs, audiences }: Standing): readonly Condition[] {
  return [
    ...endpoints.flatMap(endpointCondition),
    ...backlogs.flatMap(backlogConditions),
    ...audiences.flatMap(audienceCondition),
  ];
}

function endpointCondition({ endpoint, destination, url, state, since }: EndpointStatus): readonly Condition[] {
  const about = { subject: endpoint, destination, since };
  if (state === 'refusing')
    return [
      {
        ...about,
        kind: 'endpointRefusing',
        message: `${destination} refuses everything at ${url}: its URL or secret seems to be wrong.`,
      },
    ];
  if (state === 'dead')
    return [{ ...about, kind: 'endpointDead', message: `${destination} does not answer at ${url}.` }];
  if (state === 'paused')
    return [{ ...about, kind: 'endpointPaused', message: `${destination} is paused at ${url} until it is resumed.` }];
  return [];
}

function backlogConditions({ destination, dead, heldOut }: Backlog): readonly Condition[] {
  const about = { subject: destination, destination, since: null };
  const waiting = dead - heldOut;
  return [
    ...(heldOut > 0
      ? [
          {
            ...about,
            kind: 'queueFull',
            message: `The queue of ${destination} is full: ${heldOut} wait outside.`,
          } as const,
        ]
      : []),
    ...(waiting > 0
      ? [{ ...about, kind: 'deadLetters', message: `${destination} has dead letters: ${waiting}.` } as const]
      : []),
  ];
}

function audienceCondition({ key, todo, lastRun }: AudienceStatus): readonly Condition[] {
  if (todo === null) return [];
  const about = { subject: key, audience: key, since: lastRun && new Date(lastRun.startedAt).toISOString() };
  if (todo.do === 'decide')
    return [{ ...about, kind: 'runHeld', run: todo.run, message: `${key} is held: ${todo.reason}` }];
  if (todo.do === 'repair') {
    const run = lastRun ? { run: lastRun.id } : {};
    return [{ ...about, ...run, kind: 'runFailed', message: `${key} failed with ${todo.code}: ${todo.reason}` }];
  }
  return [
    {
      ...about,
      kind: 'audienceOrphaned',
      message: `${key} is no longer configured, and its members still believe in it: retire it.`,
    },
  ];
}
