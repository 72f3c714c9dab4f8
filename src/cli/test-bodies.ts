import { bodyBuilder, formsOf, nameOf, type Story } from '../../jobs/index.ts';
import { webhook } from '../../receivers/testing.ts';
import type { Config } from '../config/config.ts';
import type { Destination } from '../destination.ts';
import { systemClock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { nothingNamed } from '../kernel/spelling.ts';
import type { MessageType } from '../message-types.ts';
import type { Terminal } from './output/terminal.ts';
import { withoutMakingStore } from './unmade-store.ts';
import { withApp } from './with-app.ts';

/** The user of made-up messages. */
const USER = 'rollcall-test';

export interface TestBodyOptions {
  readonly config: string;
  readonly type?: MessageType;
  /** Key of an audience or trait: a change of it in place of a message of `type`. */
  readonly audience?: string;
  readonly user?: string;
  /** The number of members of `audience`, in place of `user`. */
  readonly sample?: number;
  readonly batch?: number;
}

/** The bodies of each request that the options ask for; undefined for the usual test event. */
export async function testBodies(
  options: TestBodyOptions,
  config: Config,
  destination: Destination,
  terminal: Terminal,
): Promise<readonly (readonly string[])[] | undefined> {
  const { type, audience, user = USER, batch = 1 } = options;
  if (type === undefined && audience === undefined && options.user === undefined && batch === 1) return undefined;
  const makers =
    audience === undefined
      ? [messageOf(type ?? 'track', user)]
      : await changesOf(audience, options, config, destination, terminal);
  const isBatched = destination.endpoints.every((endpoint) => endpoint.batch !== undefined);
  const made = (index: number) => JSON.stringify(makers[index % makers.length]?.(`test-${systemClock.token(8)}`));
  if (options.sample !== undefined && isBatched) return [makers.map((_, index) => made(index))];
  if (batch === 1) return makers.map((_, index) => [made(index)]);
  return [Array.from({ length: batch }, (_, index) => made(index))];
}

type MakeBody = (messageId: string) => object;

const messageOf =
  (type: MessageType, userId: string): MakeBody =>
  (messageId) => {
    if (type === 'delete') return webhook(type, { userId });
    if (type === 'alias') return webhook(type, { messageId, 'User ID': userId });
    return webhook(type, { messageId, userId, ...(type === 'track' && { event: 'Rollcall Test' }) });
  };

/**
 * Changes to what the user or members are now, or a made-up user's entry, in the forms of the destination. They have no
 * sequence, so that they overtake no real change.
 */
async function changesOf(
  key: string,
  options: TestBodyOptions,
  config: Config,
  destination: Destination,
  terminal: Terminal,
): Promise<readonly MakeBody[]> {
  const { audiences, traits } = config;
  const found = [...audiences, ...traits].find((each) => each.key === key);
  if (found === undefined) {
    const known = [...audiences, ...traits].map((each) => each.key);
    throw new RollcallError('bad_usage', nothingNamed('audience or trait', [key], known));
  }
  const kind = audiences.some((each) => each.key === key) ? 'audience' : 'trait';
  const stories = await storiesOf(key, options, terminal);
  return stories.flatMap((story) => {
    const present = story === null ? kind === 'audience' : story.member === true;
    const now = systemClock.now();
    const value = story?.value ?? null;
    const columns = value === null ? [] : Object.keys(JSON.parse(value));
    const spec = { key, name: nameOf(key, config), kind, columns, removed: [], at: now, now: () => now } as const;
    const change = { userId: story?.user ?? USER, present, value, sequence: 0, changedAt: now, cause: null };
    return formsOf(destination).map((form) => {
      const build = bodyBuilder(spec, form, destination.columns);
      return (messageId: string) => {
        const body = JSON.parse(build(messageId, { ...change, reason: present ? 'entered' : 'exited' }));
        delete body.context.personas.sequence;
        // Users are real: receivers can tell the test from a change.
        if (story !== null) body.context.test = true;
        return body;
      };
    });
  });
}

/** The present state of the user, or of some members; null for a made-up user. */
async function storiesOf(
  key: string,
  options: TestBodyOptions,
  terminal: Terminal,
): Promise<readonly (Story | null)[]> {
  const { user, sample } = options;
  if (user === undefined && sample === undefined) return [null];
  return withApp(options, { terminal, adapt: withoutMakingStore }, async ({ app: { sync } }) => {
    const users = user === undefined ? (await sync.memberPage(key, '', sample ?? 1)).userIds : [user];
    if (users.length === 0) throw new RollcallError('bad_usage', `${key} has no members yet: leave out --sample.`);
    const stories: Story[] = [];
    for (const each of users) stories.push(await sync.why(key, each));
    return stories;
  });
}
