import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { startInbox, writeConfig } from '../collect/running.ts';
import { installed, type Sdk, sdks } from './clients.ts';
import { startWeather, type Trouble } from './weather.ts';

/** `rollcall serve` as a process of its own; resolves to its address. */
async function serve(t: Test, config: string): Promise<string> {
  const main = join(import.meta.dirname, '../../src/cli/main.ts');
  const child = spawn(process.execPath, [main, 'serve', '-c', config], { stdio: ['ignore', 'ignore', 'pipe'] });
  t.teardown(async () => {
    if (child.exitCode === null && child.kill()) await once(child, 'exit');
  });
  const output: string[] = [];
  for await (const line of createInterface({ input: child.stderr })) {
    output.push(line);
    const address = /answers at (http:\S+)\. /.exec(line)?.[1];
    if (address !== undefined) {
      child.stderr.resume();
      return address;
    }
  }
  throw new Error(`rollcall serve ended: ${output.join('\n')}`);
}

async function start(t: Test) {
  const inbox = await startInbox(t);
  const address = await serve(t, writeConfig(t, inbox, { sdk: { connected: true } }));
  return { inbox, address };
}

const skip = installed ? false : 'the client libraries are not installed: npm run test:sdks';

for (const sdk of sdks) {
  t.test(`${sdk.name}: every call arrives as a signed webhook`, { skip }, async (t) => {
    const { inbox, address } = await start(t);
    const client = await sdk.connect(address, 'WK_sdk');
    const timestamp = new Date('2026-01-02T03:04:05.678Z');
    client.send('identify', { userId: 'u1', traits: { plan: 'pro', city: 'Zürich' } });
    client.send('track', {
      userId: 'u1',
      event: 'Käse bought 🧀',
      properties: { price: 3.5 },
      messageId: 'mine',
      timestamp,
    });
    client.send('page', { userId: 'u1', name: 'Home', category: 'Docs', properties: { path: '/' } });
    client.send('screen', { userId: 'u1', name: 'Main', context: { os: { name: 'iOS', version: '9' } } });
    client.send('group', { userId: 'u1', groupId: 'g1', traits: { name: 'G' } });
    client.send('alias', { userId: 'u1', previousId: 'anonymous' });
    client.send('track', { userId: 'u1', event: 'Elsewhere', integrations: { All: false, Mixpanel: true } });
    client.send('track', { anonymousId: 'a1', event: 'Here', integrations: { All: false, Webhooks: true } });
    await client.close();
    t.strictSame(client.errors, []);
    await inbox.arrived(7);
    const of = (type: string) => inbox.webhooks.filter((webhook) => webhook.type === type);
    t.match(of('identify'), [{ version: 1, userId: 'u1', traits: { plan: 'pro', city: 'Zürich' } }]);
    t.match(of('page'), [{ userId: 'u1', name: 'Home', properties: { path: '/' } }]);
    t.match(of('screen'), [{ userId: 'u1', name: 'Main', context: { os: { name: 'iOS', version: '9' } } }]);
    t.match(of('group'), [{ userId: 'u1', groupId: 'g1', traits: { name: 'G' } }]);
    t.match(of('alias'), [{ 'Previous ID': 'anonymous', 'User ID': 'u1' }]);
    const tracks = new Map(of('track').map((webhook) => [webhook['event'], webhook]));
    t.strictSame([...tracks.keys()].toSorted(), ['Here', 'Käse bought 🧀']);
    t.match(tracks.get('Here'), { anonymousId: 'a1' });
    const bought = tracks.get('Käse bought 🧀');
    t.match(bought, { messageId: 'mine', properties: { price: 3.5 }, originalTimestamp: timestamp.toISOString() });
    const skew = Date.parse(String(bought?.['timestamp'])) - timestamp.getTime();
    t.ok(Math.abs(skew) < 60_000, 'two clocks on one machine agree');
  });

  t.test(`${sdk.name}: after trouble a message arrives once, or is given up at once`, { skip }, async (t) => {
    const { inbox, address } = await start(t);
    const passing: Trouble[] = ['rate_limited', 'internal_error', 'store_busy', 'connection lost', 'answer lost'];
    const final: Trouble[] = ['invalid_json', 'unknown_source', 'source_disabled', 'too large for a proxy'];
    const outcomes = await Promise.all([...passing, ...final].map((trouble) => sendThrough(sdk, address, trouble)));
    await inbox.arrived(passing.length);
    for (const { trouble, requests, errors } of outcomes) {
      const comes = passing.includes(trouble);
      t.equal(inbox.webhooks.filter(({ event }) => event === trouble).length, comes ? 1 : 0, `${trouble}: arrivals`);
      t.equal(requests.length, comes ? 2 : 1, `${trouble}: requests`);
      t.equal(new Set(requests.flat()).size, 1, `${trouble}: one messageId`);
      t.equal(errors.length > 0, !comes, `${trouble}: the host is told of what is lost`);
    }
  });
}

async function sendThrough(sdk: Sdk, address: string, trouble: Trouble) {
  const weather = await startWeather(address, trouble);
  const client = await sdk.connect(weather.url, 'WK_sdk');
  client.send('track', { userId: 'u1', event: trouble });
  await client.close();
  await weather.close();
  return { trouble, requests: weather.requests, errors: client.errors };
}
