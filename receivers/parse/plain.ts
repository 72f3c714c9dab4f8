import * as z from 'zod';
import type { JsonObject } from '../bodies.ts';
import { type Kind, pageKeys } from '../kinds.ts';
import { isObject } from './objects.ts';

const time = z.regexes.datetime({ precision: 3 });

const isText = (value: unknown): boolean => typeof value === 'string';
const isTime = (value: unknown): boolean => typeof value === 'string' && time.test(value);
const isTextOrNone = (value: unknown): boolean => value === undefined || typeof value === 'string';
const isObjectOrNone = (value: unknown): boolean => value === undefined || isObject(value);

const isCommon = ({ version, timestamp, receivedAt, messageId, anonymousId, integrations, context }: JsonObject) =>
  version === 1 &&
  isTime(timestamp) &&
  (receivedAt === undefined || isTime(receivedAt)) &&
  isTextOrNone(messageId) &&
  isTextOrNone(anonymousId) &&
  isObjectOrNone(integrations) &&
  isObject(context);

const isFromUser = (body: JsonObject) => isTextOrNone(body['userId']) && isCommon(body);

const isNamed = ({ name, category }: JsonObject) => isTextOrNone(name) && isTextOrNone(category);

/** Checks the fields of each kind. */
const plain: { readonly [K in Kind]: (body: JsonObject) => boolean } = {
  identify: (body) => isObject(body['traits']) && isFromUser(body),
  track: (body) => isText(body['event']) && isObject(body['properties']) && isFromUser(body),
  page(body) {
    const { properties } = body;
    if (!isObject(properties)) return false;
    return pageKeys.every((key) => isTextOrNone(properties[key])) && isNamed(body) && isFromUser(body);
  },
  screen: (body) => isObjectOrNone(body['properties']) && isNamed(body) && isFromUser(body),
  group: (body) => isText(body['groupId']) && isObject(body['traits']) && isFromUser(body),
  alias: (body) => isText(body['Previous ID']) && isText(body['User ID']) && isCommon(body),
  // The schema would drop other fields.
  delete: (body) => isText(body['userId']) && isTime(body['timestamp']) && Object.keys(body).length === 3,
};

const checks: ReadonlyMap<unknown, (body: JsonObject) => boolean> = new Map(Object.entries(plain));

/**
 * True if the schema would return the body unchanged, as it does for nearly all: the schema copies whatever it checks.
 * The schema decides about all other bodies, so this may only err on the side of false. A test compares the two.
 */
export const isPlain = (body: JsonObject): boolean => checks.get(body['type'])?.(body) ?? false;
