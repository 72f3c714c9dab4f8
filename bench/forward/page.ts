/** Somebody who has the overview open: `page.ts ADDRESS`. As the page does, it asks again for what a server-sent event names. */

import { ADMIN_TOKEN } from './work.ts';

/** The requests of the overview, and the topic after which each comes again, at most once a second. */
const QUESTIONS = [
  ['/overview', 'overview'],
  ['/history?of=all&step=minute', 'history'],
  ['/alerts?limit=10', 'alerts'],
] as const;
const PACE = 1_000;

const api = `${process.argv[2]}/api/v1`;
const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
const askedAt = new Map<string, number>();

async function ask(path: string): Promise<void> {
  const wait = (askedAt.get(path) ?? Number.NEGATIVE_INFINITY) + PACE - performance.now();
  if (wait > PACE) return;
  askedAt.set(path, performance.now() + Math.max(0, wait));
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  await (await fetch(api + path, { headers })).text();
}

const stream = await fetch(`${api}/events`, { headers });
await Promise.all(QUESTIONS.map(([path]) => ask(path)));
process.send?.('looking');
let text = '';
for await (const part of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
  const events = (text + part).split('\n\n');
  text = events.pop() ?? '';
  for (const event of events) {
    if (!event.startsWith('data: ')) continue;
    const { topics } = JSON.parse(event.slice('data: '.length)) as { topics: string[] };
    for (const [path, topic] of QUESTIONS) if (topics.includes(topic)) void ask(path);
  }
}
