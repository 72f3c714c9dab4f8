// Every entry exports this beside its own `Client` and `Analytics`.
export type {
  AliasParams,
  AnalyticsEvents,
  Callback,
  FlushParams,
  GroupParams,
  IdentifyParams,
  PageParams,
  TrackParams,
} from './analytics/analytics.ts';
export { Context, DeliveryError, type Event } from './analytics/context.ts';
export type { Plugin } from './analytics/plugins.ts';
export type { AnalyticsSettings, HTTPClient, HTTPClientRequest } from './analytics/settings.ts';
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
