export { Client } from './node/client.ts';
export * from './shared.ts';
