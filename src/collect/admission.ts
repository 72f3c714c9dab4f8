import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Source } from '../destination.ts';
import { readBody } from '../http/body.ts';
import { RollcallError } from '../kernel/errors.ts';
import { FairLimit } from './fair-limit.ts';
import { inflated, inflatedAtOnce } from './inflate.ts';
import { JsonBody } from './json-body.ts';
import { maskedStart } from './sample.ts';
import {
  basicWriteKey,
  createEnabledSource,
  createWriteKeys,
  ownerOf,
  queryWriteKey,
  shownWriteKeys,
  unknownSource,
} from './write-keys.ts';

/** Bodies inflated at a time: the threads for it are few, and shared with file reads. */
const INFLATED_AT_ONCE = 2;
/** Bodies up to SMALL are inflated in this thread if they stay within AT_ONCE: to hand them on would cost more. */
const SMALL = 8 * 1024;
const AT_ONCE = 64 * 1024;

/** A stranger's body is parsed if it has no more bytes. Malicious JSON takes 20 times as long as other JSON. */
const PARSED_FOR_ALL = 8 * 1024;

/**
 * Reads and authenticates requests. The write key is looked up as early as possible: in the headers, else in the body. Until
 * then a request has only the memory that strangers have, and a large body is parsed only if its text has a known key.
 *
 * @param sources - returns the same list as long as nothing changed
 */
export function admit(app: FastifyInstance, sources: () => readonly Source[]): void {
  const findSource = createWriteKeys(sources);
  const enabledSource = createEnabledSource(sources);
  const inflating = new FairLimit(INFLATED_AT_ONCE);
  const recognise = (request: FastifyRequest, writeKey: string) => {
    request.collectSource = enabledSource(writeKey);
    app.edge.believe(request, ownerOf(request.collectSource));
  };
  app.decorateRequest('collectSource', null);
  app.decorateRequest('collectUnread', null);
  // A promise for each request would cost as much as the work itself.
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404) return done();
    // Clients send JSON as text, as a form, or with invalid content types.
    request.raw.headers['content-type'] = undefined;
    try {
      const writeKey = basicWriteKey(request.headers.authorization) ?? queryWriteKey(request.query);
      if (writeKey !== null) recognise(request, writeKey);
    } catch (error) {
      return done(error as Error);
    }
    done();
  });
  app.removeAllContentTypeParsers();
  const read = (request: FastifyRequest, bytes: Buffer): JsonBody => {
    app.edge.hold(request, bytes.length);
    if (request.collectSource === null && bytes.length > PARSED_FOR_ALL && !showsKnownKey(bytes)) throw unknownSource();
    const body = readJson(request, bytes);
    if (request.collectSource === null) recognise(request, body.writeKey ?? '');
    return body;
  };
  const showsKnownKey = (bytes: Buffer) =>
    shownWriteKeys(bytes.toString()).some((key) => findSource(key) !== undefined);
  const inflate = ({ holding }: FastifyRequest, sent: Buffer, encoding: string, maxBytes: number) => {
    // Strangers take turns by address: one's bomb must not keep another waiting.
    const sender = holding.owner ?? holding.client;
    return inflating.pass(sender, 1, () => inflated(sent, encoding, maxBytes));
  };
  app.addContentTypeParser('*', (request: FastifyRequest, payload: Readable, done) => {
    if (request.is404) return done(null, undefined);
    // The whole body has arrived. Fastify would close the connection, and requests behind this one would get no answer.
    const fail = (error: Error) => done(null, error);
    const finish = (bytes: Buffer) => {
      let body: JsonBody;
      try {
        body = read(request, bytes);
      } catch (error) {
        return fail(error as Error);
      }
      done(null, body);
    };
    readBody(request, payload, (error, sent) => {
      if (error !== null) return done(error);
      const encoding = request.headers['content-encoding'];
      if (encoding === undefined) return finish(sent);
      const maxBytes = request.routeOptions.bodyLimit;
      const small = sent.length <= SMALL ? inflatedAtOnce(sent, encoding, Math.min(AT_ONCE, maxBytes)) : null;
      if (small !== null) finish(small);
      else inflate(request, sent, encoding, maxBytes).then(finish, fail);
    });
  });
  app.addHook('preHandler', ({ body, method, is404 }, _reply, done) => {
    if (body instanceof Error) return done(body);
    const isMissing = !is404 && method === 'POST' && body === undefined;
    done(isMissing ? new RollcallError('invalid_json', 'The request has no body.') : undefined);
  });
  // The schemas are for the documentation; messages are checked one by one.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
}

function readJson(request: FastifyRequest, bytes: Buffer): JsonBody {
  try {
    return new JsonBody(bytes);
  } catch (error) {
    request.collectUnread = maskedStart(bytes);
    throw error;
  }
}

/** @throws RollcallError `invalid_json` */
export function bodyOf({ body }: FastifyRequest): JsonBody {
  if (body instanceof JsonBody) return body;
  throw new RollcallError('invalid_json', 'The body must be JSON.');
}

/** Releases the body: while its messages are being written, nothing else of it should stay in memory. */
export function letBodyGo(request: FastifyRequest): void {
  request.body = undefined;
}
