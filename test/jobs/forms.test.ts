import { createHash } from 'node:crypto';
import t from 'tap';
import type { Destination } from '../../src/destination.ts';
import type { Claim, Verdict } from '../../src/store/port.ts';
import { audience, createRig, destination, type Rig, type Told, trait } from './helpers/rig.ts';

/** A change as a destination gets it, in either form. */
interface Got extends Told {
  readonly type: string;
  readonly messageId: string;
  readonly event?: string;
  readonly properties?: Record<string, unknown>;
}

const to = (name: string, changes: Partial<Destination>): Destination => ({ ...destination(name), ...changes });

async function got(rig: Rig, name: string, verdict?: (claim: Claim) => Verdict): Promise<Got[]> {
  return ((await rig.deliver(verdict)).get(name) ?? []) as Got[];
}

const brief = ({ type, event, userId, traits, properties, context: { personas } }: Got) => {
  return [type === 'track' ? event : type, userId, traits ?? properties, personas['reason']];
};

/** SQL that returns (user_id, email, plan) from the rows of a file. */
const FROM_FILE = "select * from read_csv('users.csv', header = true, all_varchar = true)";
const users = (rig: Rig, ...rows: readonly string[]) => rig.write('users', ['user_id,email,plan', ...rows]);
const hash = (text: string) => createHash('sha256').update(text).digest('hex');

t.test('sends columns with each change, as each destination wants them', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('vip', FROM_FILE, { with: { email: {}, plan: {} } })];
  rig.config.destinations = [
    destination('crm'),
    to('ads', { columns: { email: 'sha256' } }),
    to('bare', { columns: {} }),
  ];
  users(rig, '1, Ada@X.io ,pro', '2,,free', '3,c@x.io,');
  await rig.sync.run();
  const first = await rig.deliver();
  const traits = (name: string, from = first) => from.get(name)?.map((each) => each.traits);
  t.same(traits('crm'), [
    { vip: true, email: ' Ada@X.io ', plan: 'pro' },
    { vip: true, plan: 'free' },
    { vip: true, email: 'c@x.io' },
  ]);
  t.same(traits('ads'), [{ vip: true, email: hash('ada@x.io') }, { vip: true }, { vip: true, email: hash('c@x.io') }]);
  t.same(traits('bare'), [{ vip: true }, { vip: true }, { vip: true }]);
  const ids = ['crm', 'ads', 'bare'].map((name) => (first.get(name) as Got[] | undefined)?.[0]?.messageId);
  t.equal(new Set(ids).size, 3, 'messages that differ have their own ids');

  users(rig, '1,ada@x.io,pro', '3,d@x.io,');
  await rig.sync.run();
  t.same(traits('crm', await rig.deliver()), [{ vip: false, plan: 'free' }], 'columns alone are not sent');
  users(rig, '1,ada@x.io,pro');
  await rig.sync.run();
  t.same(traits('crm', await rig.deliver()), [{ vip: false, email: 'd@x.io' }], 'but kept');
});

t.test('sends a change of columns alone with `sends: any`, and holds too many', async (t) => {
  const rig = await createRig(t);
  const changed = { with: { email: {} }, sendsColumns: true } as const;
  rig.config.audiences = [audience('vip', FROM_FILE, changed)];
  rig.config.destinations = [to('crm', { membership: 'both' })];
  users(rig, '1,a@x.io,', '2,b@x.io,');
  await rig.sync.run();
  await rig.deliver();
  users(rig, '1,A@x.io,', '2,b@x.io,');
  t.match(await rig.sync.run(), [{ runs: [{ changed: 1, entered: 0, reasons: { changed: 1 } }] }]);
  const names = { audience_key: 'vip', audience_name: 'vip' };
  t.same((await got(rig, 'crm')).map(brief), [
    ['identify', '1', { vip: true, email: 'A@x.io' }, 'changed'],
    ['Audience Updated', '1', { ...names, vip: true, email: 'A@x.io' }, 'changed'],
  ]);
  users(rig, '1,a@x.io,', '2,b@x.io,');
  rig.config.audiences = [audience('vip', `${FROM_FILE} where true`, changed)];
  await rig.sync.run();
  const [identify, event] = await got(rig, 'crm');
  t.match(identify?.context.personas, { reason: 'definition', update: true });
  t.match(event, { event: 'Audience Updated', context: { personas: { reason: 'definition', update: true } } });

  users(rig, '1,x@x.io,', '2,y@x.io,');
  const guard = { maxExits: null, maxEntries: null, maxChanges: { percent: 50 }, minMembers: 0, allowEmpty: true };
  rig.config.audiences = [audience('vip', `${FROM_FILE} where true`, { ...changed, guard })];
  t.match(await rig.sync.run(), [{ runs: [{ state: 'held', reason: /^2 of 2 users would change.*maxChanges/ }] }]);
});

t.test('forgets columns that are no longer named, and sends them to all once they are named again', async (t) => {
  const rig = await createRig(t);
  const named = audience('vip', FROM_FILE, { with: { email: {} }, sendsColumns: true });
  rig.config.audiences = [named];
  users(rig, '1,a@x.io,', '2,b@x.io,');
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('vip', FROM_FILE)];
  rig.config.destinations.push(destination('late'));
  t.match(await rig.sync.run(), [
    {
      runs: [
        { changed: 0, sent: 0 },
        { action: 'backfill', sent: 2 },
      ],
    },
  ]);
  await rig.deliver();
  rig.config.audiences = [named];
  await rig.sync.run();
  t.same((await got(rig, 'late')).map(brief), [
    ['identify', '1', { vip: true, email: 'a@x.io' }, 'changed'],
    ['identify', '2', { vip: true, email: 'b@x.io' }, 'changed'],
  ]);
});

t.test('fails a run whose SQL lacks a column, and names columns that nothing names', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('vip', FROM_FILE, { with: { mail: {} } })];
  users(rig, '1,a@x.io,pro');
  await rig.sync.run();
  t.match(rig.notices, [{ code: 'column_missing', message: /./ }]);
});

t.test('sends audiences and traits as events, whatever types and events a destination wants', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [
    to('events', { membership: 'track', wants: { types: ['page'], events: ['Other'] } }),
    to('pair', { membership: 'both' }),
    destination('crm'),
  ];
  rig.config.audiences = [audience('vip', "select '1' as user_id", { name: 'Very Important' })];
  rig.config.traits = [trait('ltv', "select '1' as user_id, 5 as value", { name: 'Lifetime Value' })];
  await rig.sync.run();
  const names = { audience_key: 'vip', audience_name: 'Very Important' };
  const first = (await rig.deliver()) as Map<string, Got[]>;
  const traitNames = { trait_key: 'ltv', trait_name: 'Lifetime Value' };
  t.same(first.get('events')?.map(brief), [
    ['Audience Entered', '1', { ...names, vip: true }, 'first_sync'],
    ['Trait Computed', '1', { ...traitNames, ltv: 5 }, 'first_sync'],
  ]);
  const pair = first.get('pair') ?? [];
  t.same(
    pair.map(({ type }) => type),
    ['identify', 'track', 'identify', 'track'],
  );
  t.same(pair[0]?.context, pair[1]?.context, 'a pair is one change with one sequence');
  t.not(pair[0]?.messageId, pair[1]?.messageId);
  t.same(
    first.get('crm')?.map(({ type }) => type),
    ['identify', 'identify'],
  );

  rig.config.audiences = [audience('vip', "select '1' as user_id where false", { name: 'Very Important' })];
  rig.config.traits = [trait('ltv', "select '1' as user_id, 5 as value where false", { name: 'Lifetime Value' })];
  await rig.sync.run();
  t.same((await got(rig, 'events')).map(brief), [
    ['Audience Exited', '1', { ...names, vip: false }, 'definition'],
    ['Trait Computed', '1', { ...traitNames, ltv: null }, 'definition'],
  ]);
});

/** Numbers below `limit`, the same for a seed. */
function dice(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const STEPS = Number(process.env['FORMS_STEPS'] ?? 120);
const MEMBERSHIPS = ['identify', 'track', 'both'] as const;

t.test('whatever form a destination gets, and whenever that changes, it ends up with the membership', async (t) => {
  const seed = Number(process.env['FORMS_SEED'] ?? Date.now() % 1_000_000);
  t.comment(`FORMS_SEED=${seed}`);
  const roll = dice(seed);
  const rig = await createRig(t);
  const names = ['crm', 'lake'];
  rig.config.destinations = names.map((name) => destination(name));
  /** The newest change of each user, as a receiver that orders by sequence knows it. */
  const known = new Map(names.map((name) => [name, new Map<string, { sequence: number; traits: object }>()]));
  const members = new Map<string, string>();
  const learn = async (verdict?: (claim: Claim) => Verdict) => {
    for (const [name, told] of (await rig.deliver(verdict)) as Map<string, Got[]>) {
      for (const { userId, traits, properties, context } of told) {
        const sequence = Number(context.personas['sequence']);
        const { audience_key, audience_name, ...values } = properties ?? traits;
        const last = known.get(name)?.get(userId);
        if (sequence >= (last?.sequence ?? 0)) known.get(name)?.set(userId, { sequence, traits: values });
      }
    }
  };
  for (let step = 0; step < STEPS; step += 1) {
    for (let changes = roll(4); changes > 0; changes -= 1) {
      const user = String(roll(6));
      if (user !== '0' && roll(2) === 0) members.delete(user);
      else if (user !== '0') members.set(user, `${roll(5)}@x.io`);
    }
    if (roll(3) === 0) {
      rig.config.destinations = rig.config.destinations.map((each) => ({
        ...each,
        ...(roll(2) === 0 && { membership: MEMBERSHIPS[roll(3)] ?? 'both' }),
      }));
    }
    users(rig, ...[...members].map(([user, email]) => `${user},${email},`));
    rig.config.audiences = [audience('vip', FROM_FILE, { with: { email: {} }, sendsColumns: true })];
    const action = roll(8) === 0 ? rig.sync.resync('vip') : rig.sync.run();
    await action;
    // The refused ones die, and are offered again by a later run.
    if (roll(2) === 0) {
      await learn(() =>
        roll(3) === 0
          ? { kind: 'dead', reason: 'refused', status: 400, firstAt: rig.time(), marks: {} }
          : { kind: 'delivered' },
      );
    }
    rig.setTime(new Date(rig.time() + 60_000).toISOString());
  }
  await rig.sync.run();
  await learn();
  for (const name of names) {
    const state = [...(known.get(name) ?? [])].filter(([, { traits }]) => (traits as { vip: boolean }).vip);
    t.same(
      new Map(state.map(([user, { traits }]) => [user, traits])),
      new Map([...members].map(([user, email]) => [user, { vip: true, email }])),
      name,
    );
  }
});
