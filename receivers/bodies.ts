import * as z from 'zod';
import { type Kind, kinds, pageKeys, type Reason, reasons } from './kinds.ts';
import { isObject } from './parse/objects.ts';

export { type Kind, kinds, type Reason, reasons };

/** A free-form JSON object: traits, properties, parts of the context. */
export type JsonObject = Record<string, unknown>;

/** The device and its surroundings. Membership changes have `personas`. */
export interface Context extends JsonObject {
  personas?: Personas;
}

/** The mark of changes of audiences and computed traits. */
export interface Personas extends JsonObject {
  computation_class?: string;
  computation_id?: string;
  computation_key?: string;
  /** Rises with every change of the audience. One lower than already seen is late and stale. */
  sequence?: number;
  reason?: Reason | undefined;
  /** Only live changes have it. */
  cause?: CauseOfChange | undefined;
  /** The time of the change, in the form of `timestamp`. */
  changedAt?: string | undefined;
  /** True if a member has other columns, where the reason does not say so. */
  update?: boolean;
}

/** The event that caused a live change: a message, the passing of time, another audience or trait, or a deletion. */
export type CauseOfChange =
  | { messageId: string }
  | { time: string }
  | { audience: string }
  | { computed: string }
  | { deletion: true };

interface CommonFields {
  version: 1;
  /** ISO 8601, UTC, with milliseconds. */
  timestamp: string;
  /** The client's time, if it was corrected or could not be parsed. */
  originalTimestamp?: unknown;
  /** Time of acceptance by Rollcall, in the form of `timestamp`. */
  receivedAt?: string | undefined;
  /** Identifies the message: all copies that a client sends have the same. */
  messageId?: string | undefined;
  anonymousId?: string | undefined;
  integrations?: JsonObject | undefined;
  context: Context;
}

/** Fields of all kinds but alias and delete. At least one of the two ids is present. */
interface FromUser extends CommonFields {
  userId?: string | undefined;
}

export interface IdentifyBody extends FromUser {
  type: 'identify';
  traits: JsonObject;
}

export interface TrackBody extends FromUser {
  type: 'track';
  event: string;
  properties: JsonObject;
}

/** The four page properties that the specification names; others pass through. */
export type PageProperties = JsonObject & { [Key in (typeof pageKeys)[number]]?: string | undefined };

export interface PageBody extends FromUser {
  type: 'page';
  name?: string | undefined;
  category?: string | undefined;
  properties: PageProperties;
}

export interface ScreenContext extends Context {
  device?: { model?: string; type?: string } & JsonObject;
  os?: { name?: string; version?: string } & JsonObject;
  app?: { build?: string; name?: string; version?: string } & JsonObject;
}

export interface ScreenBody extends FromUser {
  type: 'screen';
  name?: string | undefined;
  category?: string | undefined;
  properties?: JsonObject | undefined;
  context: ScreenContext;
}

export interface GroupBody extends FromUser {
  type: 'group';
  groupId: string;
  traits: JsonObject;
}

/** An alias as sent, with the specification's spelling of its two ids. */
export interface AliasBody extends CommonFields {
  type: 'alias';
  'Previous ID': string;
  'User ID': string;
}

/** A deletion notice: nothing but these three fields, not even a version. */
export interface DeleteBody {
  type: 'delete';
  userId: string;
  timestamp: string;
}

/** Body of one webhook request (docs/wire.md of the service). */
export type WebhookBody = IdentifyBody | TrackBody | PageBody | ScreenBody | GroupBody | AliasBody | DeleteBody;

// `npm run reference` makes the tables of docs/wire.md from these descriptions.
// z.record walks and copies every key, which costs more than parsing the JSON did.
const object = z.custom<JsonObject>(isObject, 'expected an object').meta({ title: 'object' });
const objectOrEmpty = object.default(() => ({}));
const timestamp = z.iso.datetime({ precision: 3 }).meta({ title: 'time: ISO 8601, UTC, milliseconds' });
const string = z.string();

const common = {
  version: z.literal(1).describe('The version of the format.'),
  timestamp: timestamp.describe('When it happened.'),
  originalTimestamp: z
    .unknown()
    .optional()
    .describe('**Added.** The time as the client gave it; only if `timestamp` differs.'),
  receivedAt: timestamp.optional().describe('**Added.** When Rollcall accepted the message.'),
  messageId: string.optional().describe('**Added.** The same for every copy that a client sent more than once.'),
  anonymousId: string.optional().describe('**Added.** Only if the message had one.'),
  integrations: object.optional().describe('**Added.** Only if the message had any.'),
  context: z
    .custom<Context>(isObject, 'expected an object')
    .default(() => ({}))
    .meta({ title: 'object', description: 'Facts about the surroundings; `{}` at least.' }),
};
const fromUser = {
  ...common,
  userId: string.optional().describe('The user. May be absent if `anonymousId` is given.'),
};

/** An invalid category is no reason to lose a message. */
const category = string.optional().catch(undefined).describe('Only if the message had one.');
const name = string.optional().describe('The name of the page or screen; only if the message had one.');

export const identifyBody = z.looseObject({
  ...fromUser,
  type: z.literal('identify'),
  traits: objectOrEmpty.describe('Facts about the user. An audience sends `true` or `false` here.'),
});

export const trackBody = z.looseObject({
  ...fromUser,
  type: z.literal('track'),
  event: string.describe('The name of what happened.'),
  properties: objectOrEmpty.describe('Facts about the event.'),
});

/** Omits properties that are not strings: a receiver must not lose an event because its title is null. */
function pageProperties(properties: JsonObject): PageProperties {
  const others = pageKeys.filter((key) => properties[key] !== undefined && typeof properties[key] !== 'string');
  if (others.length === 0) return properties;
  const result = { ...properties };
  for (const key of others) delete result[key];
  return result;
}

export const pageBody = z.looseObject({
  ...fromUser,
  type: z.literal('page'),
  name,
  category,
  properties: objectOrEmpty
    .transform(pageProperties)
    .meta({ title: 'object', description: 'Its `path`, `referrer`, `title` and `url` are strings.' }),
});

export const screenBody = z.looseObject({
  ...fromUser,
  type: z.literal('screen'),
  name,
  category,
  properties: object.optional().describe('Facts about the screen.'),
  context: z
    .custom<ScreenContext>(isObject, 'expected an object')
    .default(() => ({}))
    .meta({ title: 'object', description: 'With `device`, `os` and `app` where the client gave them.' }),
});

export const groupBody = z.looseObject({
  ...fromUser,
  type: z.literal('group'),
  groupId: string.describe('The group that the user belongs to.'),
  traits: objectOrEmpty.describe('Facts about the group.'),
});

export const aliasBody = z.looseObject({
  ...common,
  type: z.literal('alias'),
  'Previous ID': string.describe('The former id; in place of `previousId`.'),
  'User ID': string.describe('The id from now on; in place of `userId`.'),
});

export const deleteBody = z.object({
  type: z.literal('delete'),
  userId: string.describe('The user who must be deleted.'),
  timestamp: timestamp.describe('When the deletion was requested.'),
});

/** Parses any of the seven bodies; unknown fields of all but delete pass through. */
export const webhookBody = z.discriminatedUnion('type', [
  identifyBody,
  trackBody,
  pageBody,
  screenBody,
  groupBody,
  aliasBody,
  deleteBody,
]) satisfies z.ZodType<WebhookBody>;
