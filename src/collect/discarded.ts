import type { FastifyError, FastifyRequest } from 'fastify';
import { isFinal, knownError } from '../http/errors.ts';
import type { ErrorCode } from '../kernel/errors.ts';
import { JsonBody } from './json-body.ts';
import { sampleOf } from './sample.ts';
import { SourceDisabled } from './write-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The masked start of a body that could not be parsed; null on other requests. */
    collectUnread: string | null;
  }
}

/**
 * @param source - the source whose key was shown; null if unknown
 * @param start - the start of the message, as it may be shown; null if unknown
 */
export type OnDiscard = (source: string | null, code: ErrorCode, start: string | null) => void;

export function reportItem(
  { collectSource }: FastifyRequest,
  code: ErrorCode,
  item: unknown,
  onDiscard: OnDiscard,
): void {
  onDiscard(collectSource?.id ?? null, code, sampleOf(item));
}

/** Reports a refused request that its client won't send again. */
export function reportRequest(error: FastifyError, request: FastifyRequest, onDiscard: OnDiscard): void {
  const { code } = knownError(error);
  if (!isFinal(code)) return;
  const source = error instanceof SourceDisabled ? error.source : request.collectSource;
  const body = request.pixel ?? request.body;
  onDiscard(source?.id ?? null, code, body instanceof JsonBody ? sampleOf(body.rest) : request.collectUnread);
}
