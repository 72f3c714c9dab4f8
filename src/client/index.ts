export { Client, type WaitOptions } from './client.ts';
export { ClientError, type ClientErrorCode } from './errors.ts';
export type { Loss, LossReason, Report } from './ledger.ts';
export type {
  AliasMessage,
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
