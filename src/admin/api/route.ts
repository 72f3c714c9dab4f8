import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import type { Right } from '../../config/config.ts';
import { checkedPart, documented, errorAnswer, jsonSchema } from '../../http/schemas.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { Slots } from '../../kernel/slots.ts';
import { suggestion } from '../../kernel/spelling.ts';
import type { Audit } from '../audit.ts';
import type { Caller, Gate } from '../guard.ts';

export interface ApiRoutes {
  readonly app: FastifyInstance;
  readonly gate: Gate;
  readonly audit: Audit;
  readonly readers: Readers;
}

/** The most requests that read at once, and that wait. The store's connections, or its thread, are there for writers. */
const READING = { atOnce: 3, waiting: 64 } as const;
/** The same for the plans of one caller, so that others get their turn. */
const PLANNING = { atOnce: 2, waiting: 2 } as const;

/** Queues of requests that only read. */
export class Readers {
  readonly store = new Slots(() => READING.atOnce, {
    most: READING.waiting,
    full: () => new RollcallError('overloaded', 'Too many requests read at once. Try again in a moment.'),
  });
  private readonly plans = new Map<string, Slots>();

  plansOf({ name }: Caller): Slots {
    const full = () => new RollcallError('engine_busy', 'Your earlier plans are not finished. Try again after them.');
    const slots = this.plans.get(name) ?? new Slots(() => PLANNING.atOnce, { most: PLANNING.waiting, full });
    this.plans.set(name, slots);
    return slots;
  }
}

const NOTHING = z.object({});
const ORDER_BYTES = 1024 * 1024;

/** Makes lists read-only, so that handlers may return those of others. */
type Unchanged<T> = T extends readonly (infer Item)[]
  ? readonly Unchanged<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Unchanged<T[Key]> }
    : T;

export interface AskedRequest<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Tells the audit log that the order goes on after the answer, until its outcome is known. */
  readonly goesOn: (outcome: Promise<string>) => void;
  /** Aborts once the client has closed its connection. */
  readonly signal: AbortSignal;
}

interface RouteOptions<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType> {
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly answer: A;
  /** Set if it may answer 202 in the same form, before the order is carried out. */
  readonly begins?: true;
  /** Set if it queries an engine, which has a queue of its own. */
  readonly engine?: 'look' | 'plan';
  readonly handle: (
    asked: AskedRequest<z.output<P>, z.output<Q>, z.output<B>>,
  ) => Promise<Unchanged<z.input<A>>> | Unchanged<z.input<A>>;
}

/** An order's action and target for the audit log. Never names people. */
interface Deed {
  readonly action: string;
  readonly target: string | null;
}

export function reading<
  A extends z.ZodType,
  P extends z.ZodType = typeof NOTHING,
  Q extends z.ZodType = typeof NOTHING,
>({ app, gate, readers }: ApiRoutes, path: string, options: RouteOptions<P, Q, typeof NOTHING, A>): void {
  const docs = documented(() => documentation(options, 'read'));
  app.get(path, { ...docs, onRequest: gate.guard('read') }, async (request, reply) => {
    reply.header('cache-control', 'no-store');
    refuseUnknown(options.query ?? NOTHING, request.query, 'query');
    const caller = gate.caller(request);
    const { signal } = request;
    const given = { ...asked(options, request), body: {}, caller, request, reply, signal, goesOn() {} };
    const answer = async () => options.handle(given);
    if (options.engine === 'look') return untilHungUp(signal, answer);
    const slots = options.engine === 'plan' ? readers.plansOf(caller) : readers.store;
    return untilHungUp(signal, () => slots.during(signal, answer));
  });
}

/** The signal of a request ends with its body. */
function hangUpOf({ raw }: FastifyReply): AbortSignal {
  const ending = new AbortController();
  raw.once('close', () => ending.abort());
  return ending.signal;
}

async function untilHungUp<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new RollcallError('request_timeout', 'The client closed the connection before the answer.');
  }
}

/** A route that changes something. It is recorded in the audit log, with its outcome. */
export function ordering<
  A extends z.ZodType,
  P extends z.ZodType = typeof NOTHING,
  Q extends z.ZodType = typeof NOTHING,
  B extends z.ZodType = typeof NOTHING,
>(
  { app, gate, audit, readers }: ApiRoutes,
  path: string,
  options: RouteOptions<P, Q, B, A> & {
    readonly deed: (asked: { params: z.output<P>; body: z.output<B> }) => Deed;
    readonly may?: Right;
  },
): void {
  const { may = 'operate' } = options;
  const docs = documented(() => documentation(options, may));
  app.post(path, { ...docs, onRequest: gate.guard(may), bodyLimit: ORDER_BYTES }, async (request, reply) => {
    const caller = gate.caller(request);
    const { query = NOTHING, body = NOTHING } = options;
    refuseUnknown(query, request.query, 'query');
    refuseUnknown(body, request.body ?? {}, 'body');
    const given = { ...asked(options, request), body: checkedPart(body, request.body ?? {}, 'body') as z.output<B> };
    const { action, target } = options.deed(given);
    let outcome: string | Promise<string> = 'done';
    const goesOn = (later: Promise<string>) => {
      outcome = later;
    };
    const signal = hangUpOf(reply);
    const work = async () => options.handle({ ...given, caller, request, reply, signal, goesOn });
    const inTurn =
      options.engine === 'plan' ? () => untilHungUp(signal, () => readers.plansOf(caller).during(signal, work)) : work;
    return audit.during({ who: caller.name, action, target }, inTurn, () => outcome);
  });
}

function asked<P extends z.ZodType, Q extends z.ZodType>(
  { params, query }: { readonly params?: P; readonly query?: Q },
  request: FastifyRequest,
) {
  return {
    params: checkedPart(params ?? NOTHING, request.params, 'path') as z.output<P>,
    query: checkedPart(query ?? NOTHING, request.query, 'query') as z.output<Q>,
  };
}

/** Refuse unknown fields: with a misspelt filter, an order or an answer would cover more than was meant. */
function refuseUnknown(schema: z.ZodType, given: unknown, where: string): void {
  if (!(schema instanceof z.ZodObject) || typeof given !== 'object' || given === null) return;
  const known = Object.keys(schema.shape);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new RollcallError('invalid_request', `${where}: ${unknown} is not known${suggestion(unknown, known)}`);
}

function documentation<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType>(
  { summary, description, tag, params, query, body, answer, begins }: RouteOptions<P, Q, B, A>,
  may: Right,
) {
  const shape = jsonSchema(answer);
  return {
    summary,
    description: [description, `Needs a token that may \`${may}\`.`].filter(Boolean).join(' '),
    tags: [tag],
    security: [{ adminToken: [] }],
    ...(params ? { params: jsonSchema(params) } : {}),
    ...(query ? { querystring: jsonSchema(query) } : {}),
    ...(body ? { body: jsonSchema(body) } : {}),
    response: {
      200: { description: 'Done.', ...shape },
      ...(begins ? { 202: { description: 'Ordered; nobody waits for it.', ...shape } } : {}),
      ...failures(may),
      404: errorAnswer('There is no such thing.'),
      409: errorAnswer('It can’t be done as things stand; `code` says why.'),
      500: errorAnswer('A run or an engine failed, or Rollcall has a fault; `code` says which.'),
    },
  };
}

/** Documents the answers to requests that fail before their handler. */
export function failures(may: Right | null) {
  return {
    400: errorAnswer('Not a valid request.'),
    401: errorAnswer('The admin token is missing or wrong.'),
    403: errorAnswer(may ? `The token may not ${may}.` : 'A page of another site asks.'),
    415: errorAnswer('The body is not application/json.'),
    429: errorAnswer('Too many wrong tokens came from this address.'),
    503: errorAnswer('There is no admin token, the store does not answer, or the process stops or has too much to do.'),
  };
}
