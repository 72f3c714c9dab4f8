export * from './shared.ts';
export { Client } from './web/client.ts';
