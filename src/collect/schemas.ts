import type { FastifySchema } from 'fastify';
import * as z from 'zod';
import { type Documented, documented, errorAnswer, jsonSchema } from '../http/schemas.ts';
import { messageSchemas } from '../message.ts';
import { CLIENT_TYPES, type ClientType } from '../message-types.ts';
import { DEFAULT_LIMITS } from './limits.ts';

/** Schemas of requests and answers, only for the documentation: `readMessage` checks the messages one by one. */

const object = z.record(z.string(), z.unknown());
const travel = {
  sentAt: z.string().optional().describe("When it was sent, by the client's clock; corrects `timestamp`."),
  writeKey: z.string().optional().describe('For clients that send no Authorization header.'),
};
const timestamp = z.string().optional().describe('ISO 8601; the time of arrival if absent.');

const done = z.object({ success: z.literal(true) });
const rejected = z.object({
  index: z.int().describe('Place in the batch, from 0.'),
  messageId: z.string().nullable(),
  code: z.string(),
  message: z.string(),
});

const batch = z.looseObject({
  batch: z
    .array(z.discriminatedUnion('type', CLIENT_TYPES.map(itemSchema) as [ItemSchema, ...ItemSchema[]]))
    .min(1)
    .max(DEFAULT_LIMITS.batchMessages),
  context: object.optional().describe("Counts for every message; a message's own wins."),
  integrations: object.optional().describe("Counts for every message; a message's own wins."),
  ...travel,
});

type ItemSchema = ReturnType<typeof itemSchema>;

function itemSchema(type: ClientType) {
  return messageSchemas[type].extend({ type: z.literal(type), timestamp });
}

export function callRoute(type: ClientType): Documented {
  return documented(() =>
    collectRoute(`One ${type} message`, messageSchemas[type].extend({ timestamp, ...travel }), done),
  );
}

export function batchRoute(): Documented {
  return documented(() =>
    collectRoute('Many messages', batch, done.extend({ rejected: z.array(rejected).optional() })),
  );
}

export function settingsRoute(): Documented {
  return getRoute('What analytics-next asks of its `cdnURL`', 'Where to send.', () => ({
    params: jsonSchema(z.object({ key: z.string().describe('A write key.') })),
  }));
}

export function sourceConfigRoute(): Documented {
  return getRoute("What Rudder's library for browsers asks of its `configUrl`", 'Whether to send.', () => ({
    security: [{ writeKey: [] }, {}],
    querystring: jsonSchema(z.object({ writeKey: z.string().optional().describe('Where no header has it.') })),
  }));
}

export function pixelRoute(type: ClientType): Documented {
  return getRoute(`One ${type} message in the address of an image`, 'Durable; an image of one pixel.', () => {
    const data = z.string().describe(`A ${type} message with its \`writeKey\`, as JSON in Base64.`);
    return { querystring: jsonSchema(z.object({ data, writeKey: z.string().optional() })) };
  });
}

function getRoute(summary: string, description: string, asked: () => FastifySchema): Documented {
  return documented(() => ({ summary, tags: ['Browsers'], ...asked(), response: { 200: { description } } }));
}

function collectRoute(summary: string, body: z.ZodType, answer: z.ZodType): FastifySchema {
  return {
    summary,
    tags: ['Tracking API'],
    security: [{ writeKey: [] }, {}],
    body: jsonSchema(body),
    response: {
      200: { description: 'Durable.', ...jsonSchema(answer) },
      400: errorAnswer('Not taken; sending it again will not help.'),
      401: errorAnswer('Unknown write key.'),
      403: errorAnswer('The source is disabled.'),
      429: errorAnswer('Over the rate limit; try again after `Retry-After` seconds.'),
      503: errorAnswer('Can take no more now; try again after `Retry-After` seconds.'),
    },
  };
}
