import { Analytics } from './node/analytics.ts';

export { Client } from './node/client.ts';
export * from './shared.ts';
export { Analytics };
export default Analytics;
