export * from './bodies.ts';
export * from './fastify.ts';
export { createReceiver, type Receiver, type StandaloneOptions } from './handle.ts';
export type { AliasMessage, Message, MessageOf, UnknownMessage } from './messages.ts';
export type {
  AckOptions,
  AudienceHandlers,
  Delivery,
  Failure,
  Handler,
  Handlers,
  Invalid,
  Log,
  ReceiverClock,
  RequestHead,
  SecretOption,
  VerifyOptions,
} from './options.ts';
export { type Secret, sign, signingKey, verify } from './signature.ts';
export { type Inbox, memoryStore, type ReceiverStore, type StoredRequest } from './store.ts';
