// Every entry point exports this together with its own `Client`.
export type { WaitOptions } from './client.ts';
export { ClientError, type ClientErrorCode } from './errors.ts';
export type { Fetch, FetchAnswer, FetchInit } from './fetch.ts';
export type { Loss, LossFacts, LossReason, Report } from './ledger.ts';
export type {
  AliasMessage,
  AnyEvents,
  Common,
  Fields,
  GroupMessage,
  IdentifyMessage,
  PageMessage,
  ScreenMessage,
  TrackMessage,
  Who,
} from './message.ts';
export type { ClientOptions } from './options.ts';
export type { Retry } from './outage.ts';
