import t from 'tap';
import { compare, SETTLES, WITHIN } from '../../src/alerts/compare.ts';
import type { Concern } from '../../src/concern.ts';
import type { Alert } from '../../src/store/port.ts';
import { parse, withParts } from '../config/helpers.ts';

const MINUTE = 60_000;

const dead = (subject = 'e1', over: Partial<Concern> = {}): Concern => ({
  ...{ kind: 'endpointDead', subject, destination: `d-${subject}`, since: null, message: `${subject} does not answer` },
  ...over,
});

/** Looks as the watch does, and keeps what was told. */
function watching(top = 'alerts: {}') {
  const { rules } = parse(withParts({ top })).alerts;
  let [now, ids, known] = [1_000_000, 0, [] as readonly Alert[]];
  const told: string[] = [];
  return {
    told,
    known: () => known,
    look(concerns: readonly Concern[], passed = 5_000, age = 0) {
      now += passed;
      const newId = () => `id-${++ids}`;
      const { changed, gone } = compare(known, concerns, rules, () => age, { now, newId });
      const next = new Map(known.filter(({ id }) => !gone.includes(id)).map((alert) => [alert.id, alert]));
      const announcements = new Map<string, string[]>();
      for (const alert of changed) {
        for (const when of ['opening', 'closing'] as const) {
          const announcement = alert[when];
          if (!announcement || next.get(alert.id)?.[when]) continue;
          const text = `${when} ${announcement.id}`;
          announcements.set(text, [...(announcements.get(text) ?? []), alert.about.subject]);
        }
        next.set(alert.id, { ...alert, isOver: alert.isOver || alert.closing !== null });
      }
      for (const [announcement, subjects] of announcements)
        told.push(`${announcement.split(' ')[0]} ${subjects.join()}`);
      known = [...next.values()];
      return told.splice(0);
    },
  };
}

t.test('announces a lasting concern once, and its end after a while', async (t) => {
  const { look } = watching();
  t.same(look([dead()]), [], 'not at once');
  t.same(look([dead()], MINUTE), ['opening e1']);
  for (let n = 0; n < 100; n += 1) t.same(look([dead('e1', { message: `for ${n} min` })], MINUTE), []);
  t.same(look([]), [], 'nor its end at once');
  t.same(look([dead()], MINUTE - 1), [], 'it was not over');
  t.same(look([]), []);
  t.same(look([], SETTLES - 1), []);
  t.same(look([], 1), ['closing e1']);
  t.same(look([], 10 * MINUTE), []);
});

t.test('does not announce a short concern', async (t) => {
  const { look, known } = watching();
  for (let n = 0; n < 20; n += 1) {
    t.same(look([dead()], 30_000), []);
    t.same(look([], 30_000), []);
  }
  t.same(known(), [], 'and leaves nothing behind');
});

t.test('announces a concern at once if it has lasted before the first check', async (t) => {
  t.same(watching().look([dead()], 0, 2 * MINUTE), ['opening e1']);
});

t.test('announces a flapping concern less and less often', async (t) => {
  const { look } = watching('alerts: { rules: { endpointDead: { after: 0s } } }');
  let [announcements, last] = [0, 0];
  for (let step = 0; step < 24 * 6; step += 1) {
    for (const concerns of [[dead()], [], []]) {
      const told = look(concerns, 5 * MINUTE).length;
      announcements += told;
      if (step >= 12) last += told;
    }
  }
  t.ok(announcements >= 4 && announcements <= 12, `${announcements} announcements in a day and a half`);
  t.equal(last, 0, 'in the end it is as good as open all the time');
});

t.test('announces a thousand concerns together, and a flood of one kind in parts', async (t) => {
  const { look } = watching('alerts: { rules: { endpointDead: { after: 0s } } }');
  const many = Array.from({ length: 1_000 }, (_, n) => dead(`e${n}`));
  const [first = '', ...others] = look(many);
  t.same(others, []);
  t.equal(first.split(',').length, 1_000);
  const drip = watching('alerts: { rules: { endpointDead: { after: 0s } } }');
  const told: string[] = [];
  for (let n = 0; n < 600; n += 1) told.push(...drip.look(many.slice(0, n), 1_000));
  t.ok(told.length <= 2 * 5 + 5, `${told.length} announcements in ten minutes`);
  told.push(...drip.look(many.slice(0, 599), WITHIN));
  const subjects = told.flatMap((text) => text.replace('opening ', '').split(','));
  t.equal(new Set(subjects).size, 599, 'each is told of');
  t.equal(subjects.length, 599, 'and told of once');
});

t.test('does not announce an alert that ends before its announcement', async (t) => {
  const { look } = watching('alerts: { rules: { endpointDead: { after: 0s } } }');
  for (let n = 0; n < 5; n += 1)
    t.equal(
      look(
        Array.from({ length: n + 1 }, (_, e) => dead(`e${e}`)),
        1_000,
      ).length,
      1,
    );
  const five = Array.from({ length: 5 }, (_, e) => dead(`e${e}`));
  t.same(look([...five, dead('late')], 1_000), [], 'it waits');
  t.same(look(five, 1_000), []);
  t.same(look(five, SETTLES), []);
  t.same(look(five, WITHIN), []);
});

t.test('ignores rules that are off, and closes their alerts silently', async (t) => {
  const { look } = watching('alerts: { rules: { endpointDead: false } }');
  t.same(look([dead()], MINUTE, MINUTE), []);
  const { rules } = parse(withParts({ top: 'alerts: { rules: { endpointDead: false } }' })).alerts;
  const open = { id: 'a', about: dead(), firstAt: 0, openedAt: 0, goneAt: 0, closedAt: null, flaps: 0 } as const;
  const known: Alert[] = [{ ...open, opening: { id: 'n', at: 0, sent: true }, closing: null, isOver: false }];
  const { changed } = compare(known, [dead()], rules, () => 0, { now: 10 * MINUTE, newId: () => 'x' });
  t.match(changed, [{ closedAt: 10 * MINUTE, closing: null, isOver: true }]);
});
