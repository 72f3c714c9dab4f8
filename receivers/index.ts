export * from './bodies.ts';
export * from './fastify.ts';
export { createReceiver, type Receiver, type StandaloneOptions } from './handle.ts';
export type {
  AckOptions,
  AudienceHandlers,
  Failure,
  Handler,
  Handlers,
  Invalid,
  Log,
  ReceivedRequest,
  ReceiverClock,
  Register,
  RequestHead,
  SecretOption,
  TraitHandlers,
  VerifyOptions,
} from './options.ts';
export type { AliasMessage, ComputedBody, Message, MessageOf, UnknownMessage } from './parse/messages.ts';
export { type Secret, sign, signingKey, verify } from './signature.ts';
export {
  type Change,
  type Inbox,
  LeaseLost,
  type MemoryStoreOptions,
  memoryStore,
  type Opened,
  type Opening,
  type ReceiverStore,
  type StoredRequest,
} from './store.ts';
export { type StandardHeaders, signStandard } from './verify/standard.ts';
export {
  createVerifyAndParse,
  type ParsedMessage,
  type RefusedRequest,
  type VerifiedRequest,
} from './verify-and-parse.ts';
