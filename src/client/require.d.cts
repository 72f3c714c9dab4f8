// What `require` gives. The types are those of the ES modules, so that both kinds of files agree on them.
import type * as esm from './dist/index.js' with { 'resolution-mode': 'import' };

export type * from './dist/index.js' with { 'resolution-mode': 'import' };

export declare const Client: typeof esm.Client;
export type Client<Events extends object = esm.AnyEvents> = esm.Client<Events>;
export declare const ClientError: typeof esm.ClientError;
export type ClientError = esm.ClientError;
