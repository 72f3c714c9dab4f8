import t from 'tap';
import { compile, compilers, nodeTypes, packed } from './packed.ts';

const app = await packed(t);
const program = `
import { Client } from '@rollcall/client';

interface Item { sku: string }
interface Order { total: number; items: Item[]; note?: string }
interface Plan { plan: 'free' | 'pro' }
class Money { amount = 1; }
declare const order: Order;
declare const plan: Plan;
declare const free: Record<string, unknown>;

const client = new Client('KEY', { endpoint: 'http://127.0.0.1:8080' });
client.track({ userId: 'u', event: 'Order Completed', properties: order });
client.track({ userId: 'u', event: 'Order Completed', properties: { total: 1, nested: order } });
client.track({ userId: 'u', event: 'Order Completed', properties: free });
client.track({ userId: 'u', event: 'Order Completed', properties: new Money() });
client.track({ userId: 'u', event: 'Order Completed', properties: undefined });
client.identify({ userId: 'u', traits: plan, context: plan, integrations: plan });
client.group({ userId: 'u', groupId: 'g', traits: plan });
client.page({ userId: 'u', properties: order, traits: plan });
client.screen({ anonymousId: 'a', properties: order });
// @ts-expect-error no object
client.track({ userId: 'u', event: 'Order Completed', properties: 'order' });
// @ts-expect-error an array
client.track({ userId: 'u', event: 'Order Completed', properties: [order] });
// @ts-expect-error a misspelt field
client.track({ userId: 'u', event: 'Order Completed', propertys: order });
// @ts-expect-error no event
client.track({ userId: 'u' });

interface Events { 'Order Completed': Order; 'Signed Up': { plan?: string }; 'Signed Out': {} }
const typed = new Client<Events>('KEY');
typed.track({ userId: 'u', event: 'Order Completed', properties: order });
typed.track({ userId: 'u', event: 'Signed Up', properties: { plan: 'pro' } });
typed.track({ userId: 'u', event: 'Signed Up' });
typed.track({ userId: 'u', event: 'Signed Out' });
// @ts-expect-error a misspelt event
typed.track({ userId: 'u', event: 'Order Complete', properties: order });
// @ts-expect-error a property of the wrong type
typed.track({ userId: 'u', event: 'Order Completed', properties: { total: '1', items: [] } });
// @ts-expect-error a property that is missing
typed.track({ userId: 'u', event: 'Order Completed', properties: { items: [] } });
// @ts-expect-error properties that are missing
typed.track({ userId: 'u', event: 'Order Completed' });
// @ts-expect-error a property too many
typed.track({ userId: 'u', event: 'Signed Up', properties: { plan: 'pro', plam: 'pro' } });

export async function end(): Promise<number> {
  const { sent } = await client.close({ timeout: 1 });
  return sent;
}
`;

const ofNode = { module: 'nodenext', ...nodeTypes };
const ofBrowsers = { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'], types: [] };

t.test('TypeScript 7, NodeNext and the types of Node: accepts interfaces, rejects mistakes', async (t) => {
  t.equal(await compile(compilers.today, app, { 'program.mts': program }, ofNode), '');
});

for (const [name, compiler] of [
  ['TypeScript 7, a bundler, the types of browsers and no newer library than ES2022', compilers.today],
  ['TypeScript 5.6, the same', compilers.oldest],
] as const) {
  t.test(`${name}: accepts interfaces, rejects mistakes`, async (t) => {
    t.equal(await compile(compiler, app, { 'program.mts': program }, ofBrowsers), '');
  });
}
