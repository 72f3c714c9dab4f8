import { Analytics } from './web/analytics.ts';

export * from './shared.ts';
export { Client } from './web/client.ts';
export { Analytics };
export default Analytics;
