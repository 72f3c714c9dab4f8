import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { App } from '../../src/app.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { seeded } from './helpers/events.ts';
import { startReceiver } from './helpers/receiver.ts';
import { computed, delivered } from './helpers/service.ts';

t.setTimeout(590_000);
/** Random sequences; GUARD_RUNS makes more, GUARD_SEED others. */
const RUNS = Number(process.env['GUARD_RUNS'] ?? 2);
const SEED = Number(process.env['GUARD_SEED'] ?? 1);
const STEPS = 14;
const MINUTE = 60_000;
const PEOPLE = Array.from({ length: 30 }, (_, index) => `u${index}`);

/** What receivers knew after a step. `asked` is the number of exits that a person approved. */
interface Known {
  readonly at: number;
  readonly members: ReadonlySet<string>;
  readonly asked: number | null;
}

for (let run = 0; run < RUNS; run += 1) {
  t.test(`lets no more than maxExits of the greatest size leave within an hour, sequence ${SEED + run}`, async (t) => {
    const random = seeded(SEED + run);
    const below = (most: number) => Math.floor(random() * most);
    const maxExits = [1, 3, '20%', '50%'][below(4)] ?? 1;
    const minMembers = [0, 1, 5][below(3)] ?? 0;
    const service = loggingService(t);
    const receiver = await startReceiver(t);
    const app = await service.open([], {
      network: { allow: ['127.0.0.0/8'] },
      destinations: [{ name: 'crm', sources: ['personas'], webhookUrl: receiver.url }],
      audiences: [
        {
          ...{ name: 'On', key: 'on', source: 'personas', live: true, when: { trait: 'on', is: true } },
          guard: { maxExits, minMembers, allowEmpty: true },
        },
      ],
    });
    await app.start({ collect: true, schedules: true });
    await settled(app);
    const story: Known[] = [{ at: service.clock.now(), members: new Set(), asked: null }];
    const wanted = new Set<string>();
    const say = async (most: number, on: boolean) => {
      const people = PEOPLE.filter((id) => wanted.has(id) !== on).slice(0, below(most) + 1);
      for (const id of people) on ? wanted.add(id) : wanted.delete(id);
      const batch = people.map((userId) => ({ type: 'identify', userId, traits: { on }, messageId: randomUUID() }));
      if (batch.length > 0) await send(app, batch);
    };
    for (let step = 0; step < STEPS; step += 1) {
      let asked: number | null = null;
      const [held] = await app.store.runs({ key: 'on', states: ['held'], limit: 1 });
      const dice = random();
      if (held && dice < 0.6) {
        asked = held.exited;
        t.equal((await app.sync.approve(held.id)).error, null);
      } else if (dice < 0.35) await say(10, true);
      else if (dice < 0.75) await say(4, false);
      else if (dice < 0.85) service.advance(below(70) * MINUTE);
      else if (dice < 0.95) {
        await app.store.pauseAudience({ key: 'on', at: service.clock.now(), by: 'a test' });
        await say(3, false);
        await computed(app);
        await app.store.resumeAudience('on');
      } else if (!held) await app.sync.resync('on');
      await settled(app);
      story.push({ at: service.clock.now(), members: new Set(Object.keys(receiver.state('on'))), asked });
      const fault = faultOf(story, maxExits, minMembers);
      t.equal(fault, null, `step ${step}, ${story.at(-1)?.members.size} members, ${maxExits}, ${minMembers}`);
    }
  });
}

/** Counts back from the last step to an approval, or over an hour. */
function faultOf(story: readonly Known[], maxExits: number | string, minMembers: number): string | null {
  const now = story.at(-1)?.at ?? 0;
  let exits = 0;
  let greatest = 0;
  for (let step = story.length - 1; step > 0; step -= 1) {
    const { at, members, asked } = story[step] as Known;
    if (at <= now - 60 * MINUTE) break;
    const before = (story[step - 1] as Known).members;
    const left = [...before].filter((id) => !members.has(id)).length;
    exits += left - (asked ?? 0);
    greatest = Math.max(greatest, before.size, members.size);
    if (asked !== null) break;
  }
  const limit = typeof maxExits === 'number' ? maxExits : (Number.parseInt(maxExits, 10) * greatest) / 100;
  return greatest >= minMembers && exits > limit ? `${exits} left, of at most ${greatest}` : null;
}

/** All is sent, or waits for a person. */
async function settled(app: App): Promise<void> {
  for (;;) {
    await computed(app);
    const [held] = await app.store.runs({ key: 'on', states: ['held'], limit: 1 });
    const [audience] = await app.sync.audiences();
    if (held || audience?.live?.hold === null) break;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  await delivered(app);
}
