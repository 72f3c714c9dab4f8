// What `require` gives. The types are those of the ES modules, so that both kinds of files agree on them.
import type * as esm from './dist/index.js' with { 'resolution-mode': 'import' };

export type * from './dist/index.js' with { 'resolution-mode': 'import' };

export declare const Client: typeof esm.Client;
export type Client<Events extends object = esm.AnyEvents> = esm.Client<Events>;
export declare const Analytics: typeof esm.Analytics;
export type Analytics<Events extends object = esm.AnyEvents> = esm.Analytics<Events>;
export declare const Context: typeof esm.Context;
export type Context = esm.Context;
export declare const ClientError: typeof esm.ClientError;
export type ClientError = esm.ClientError;
export declare const DeliveryError: typeof esm.DeliveryError;
export type DeliveryError = esm.DeliveryError;
declare const byDefault: typeof esm.Analytics;
export default byDefault;
