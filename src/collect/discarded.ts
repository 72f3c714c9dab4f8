import type { FastifyError, FastifyRequest } from 'fastify';
import { isFinal, knownError } from '../http/errors.ts';
import type { ErrorCode } from '../kernel/errors.ts';
import { JsonBody } from './json-body.ts';
import { sampleOf } from './sample.ts';
import { SourceDisabled } from './write-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The start of a body that could not be read, as it may be shown; null on other requests. */
    collectUnread: string | null;
  }
}

/**
 * @param source - whose key was shown; null if that is not known
 * @param start - the start of what was sent, as it may be shown; null where it is not known
 */
export type OnDiscard = (source: string | null, code: ErrorCode, start: string | null) => void;

/** Reports an item of a batch that is not taken, while the others are. */
export function reportItem(
  { collectSource }: FastifyRequest,
  code: ErrorCode,
  item: unknown,
  onDiscard: OnDiscard,
): void {
  onDiscard(collectSource?.id ?? null, code, sampleOf(item));
}

/** Reports a request that is not taken, and that its client won't send again. */
export function reportRequest(error: FastifyError, request: FastifyRequest, onDiscard: OnDiscard): void {
  const { code } = knownError(error);
  if (!isFinal(code)) return;
  const source = error instanceof SourceDisabled ? error.source : request.collectSource;
  const body = request.pixel ?? request.body;
  onDiscard(source?.id ?? null, code, body instanceof JsonBody ? sampleOf(body.rest) : request.collectUnread);
}
