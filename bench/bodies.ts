/** The bodies of the benchmarks, as clients send them when somebody orders, and the sizes of a run. */
import { parseArgs } from 'node:util';

const { values } = parseArgs({ strict: false, options: { sizes: { type: 'string' } } });

/** Sizes of bodies in KB, of `--sizes 0.8,2.5`: servers send some 0.8, browsers 1.5 to 4. */
export const sizes: readonly number[] = String(values['sizes'] ?? '0.8,2.5,4')
  .split(',')
  .map(Number);

/** The size of rows that are measured at one size only. */
export const usualSize = sizes.includes(2.5) ? 2.5 : (sizes[0] as number);

const server = { ip: '203.0.113.7', library: { name: '@segment/analytics-node', version: '3.1.0' } };

const browser = {
  ip: '203.0.113.7',
  page: {
    path: '/kasse/danke',
    referrer: 'https://shop.example/kasse/zahlung?utm_source=newsletter&utm_medium=email&utm_campaign=herbst-2026',
    search: '?utm_source=newsletter&utm_medium=email&utm_campaign=herbst-2026&utm_content=oben',
    title: 'Vielen Dank für Ihre Bestellung | Käse und Brot',
    url: 'https://shop.example/kasse/danke?utm_source=newsletter&utm_medium=email&utm_campaign=herbst-2026&utm_content=oben',
  },
  userAgent:
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
  userAgentData: {
    brands: [
      { brand: 'Chromium', version: '142' },
      { brand: 'Google Chrome', version: '142' },
      { brand: 'Not_A Brand', version: '99' },
    ],
    mobile: false,
    platform: 'Windows',
  },
  campaign: { name: 'herbst-2026', source: 'newsletter', medium: 'email', content: 'oben' },
  device: { type: 'desktop', id: '0c1a9f52-6d5e-4c0b-9a77-2f1f6f0f3c55' },
  screen: { width: 2560, height: 1440, innerWidth: 2048, innerHeight: 1025, density: 1.25 },
  locale: 'de-DE',
  timezone: 'Europe/Berlin',
  library: { name: 'analytics.js', version: 'npm:next-1.77.0' },
};

const product = (n: number) => ({
  product_id: `507f1f77bcf86cd79943${n + 1000}`,
  sku: `KB-${n + 1000}`,
  category: 'Cheese/Hard',
  name: `Mountain cheese, ${n + 6} months`,
  brand: 'Alpine Dairy',
  variant: '500 g',
  price: 12.95,
  quantity: 2,
  position: n + 1,
  url: `https://shop.example/p/mountain-cheese-${n + 1000}`,
});

const NOTE = 'Please leave the parcel with the neighbours if nobody is at home. ';

/** A track message whose JSON has `kb` thousand bytes, with these fields first. */
export function order(kb: number, fields: Record<string, unknown>): object {
  const products: object[] = [];
  const properties = { order_id: '50314b8e9bcf', total: 39.95, currency: 'EUR', note: '', products };
  const context = kb < 1.5 ? server : browser;
  const message = { ...fields, event: 'Order Completed', timestamp: '2026-11-21T02:29:37.012Z', context, properties };
  const missing = () => 1_000 * kb - Buffer.byteLength(JSON.stringify(message));
  while (missing() > 300) products.push(product(products.length));
  if (!(missing() >= 0)) throw new Error(`--sizes: ${kb} KB is no size, or too small for an order`);
  properties.note = NOTE.repeat(5).slice(0, missing());
  return message;
}

const USER = 'user-0000';
const ID = '00000000-0000-0000-0000-000000000000';

/** Webhook bodies of `kb` thousand bytes, or a few less with short ids. */
export function bodyMaker(kb: number): (userId: string, messageId: string) => string {
  const text = JSON.stringify(order(kb, { version: 1, type: 'track', userId: USER, messageId: ID }));
  const [head, middle, tail] = text.split(new RegExp(`${USER}|${ID}`));
  // Joined, since `+` would leave it to whoever reads the text first to put it together.
  return (userId, messageId) => [head, userId, middle, messageId, tail].join('');
}
