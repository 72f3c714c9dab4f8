import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { alertDestinations } from '../../src/alerts/announcement.ts';
import { parseConfig } from '../../src/config/load.ts';
import { type RegulationParts, Regulations } from '../../src/deletion/regulations.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Message } from '../../src/message.ts';
import type { ErasedIds } from '../../src/store/deleted-ids.ts';
import type { Regulation } from '../../src/store/port.ts';

/** A clock whose waiting is over as soon as it has begun, and counts. */
function quickClock() {
  let now = 1_000_000;
  let ids = 0;
  return {
    ...systemClock,
    now: () => now,
    monotonic: () => now,
    uptime: () => now,
    uuid: () => `reg-${++ids}`,
    after(ms: number, callback: () => void) {
      const timer = globalThis.setImmediate(() => {
        now += ms;
        callback();
      });
      timer.unref();
      return () => clearImmediate(timer);
    },
  };
}

const destination = (name: string, sources: string[], enabled = true) => ({
  ...{ name, sources, enabled, secrets: [], endpoints: [], require: 'any' as const, ratePerSecond: null },
});

/** Parts that write down what is asked of them, in order; `overrides` may fail. */
function createParts(overrides: Partial<RegulationParts['store'] & RegulationParts> = {}) {
  const calls: string[] = [];
  const records = new Map<string, Regulation>();
  const notices: { source: string; message: Message; lane: string | undefined }[] = [];
  const parts: RegulationParts = {
    store: {
      saveRegulation: async (regulation) => {
        calls.push(`save ${regulation.status}`);
        records.set(regulation.id, regulation);
      },
      stripRegulation: async (id) => {
        calls.push('strip');
        const record = records.get(id);
        if (record) records.set(id, { ...record, userIds: [], told: null });
      },
      told: async () => ({ cursor: null, told: [] }),
      forgetTexts: async () => {},
      setUnlogged: async () => {},
      scrub: async () => void calls.push('scrub'),
      regulation: async (id) => records.get(id) ?? null,
      openRegulations: async () =>
        [...records.values()].filter(({ status }) => ['INITIALIZED', 'RUNNING'].includes(status)),
      erase: async ({ users }, _sources, cursor) => {
        calls.push(`erase ${users.join()} from ${cursor}`);
        return { cursor: cursor === null ? 'next' : null, inFlight: 0 };
      },
      suppress: async (users, sources, on) => {
        calls.push(`suppress ${users.join()} ${sources?.join() ?? 'everywhere'} ${on}`);
      },
      takeLease: async (lease) => ({ lease, token: 1 }),
      renewLease: async () => true,
      releaseLease: async () => {},
      ...overrides,
    },
    accept: async (source, messages, { lane }) => {
      calls.push(`accept ${source} ${messages.length}`);
      for (const message of messages) notices.push({ source, message, lane });
    },
    sources: () => ['shop', 'personas', 'idle', 'off'].map((id) => ({ id, writeKey: id, enabled: true })),
    destinations: () => [
      destination('crm', ['shop', 'personas']),
      destination('mail', ['shop']),
      destination('old', ['off'], false),
    ],
    elsewhere: async () => [],
    toldByEngines: async () => [],
    forgetInEngines: async ({ users }) => {
      calls.push(`engines ${users.join()}`);
    },
    clock: quickClock(),
    log: { error: () => {} },
    ...overrides,
  };
  const finished = async (id: string) => {
    while (['INITIALIZED', 'RUNNING'].includes(records.get(id)?.status ?? '')) await setImmediate();
    return records.get(id);
  };
  return { parts, calls, records, notices, finished };
}

const request = { type: 'DELETE_ONLY', sources: null, userIds: ['u1', 'u2'] } as const;

t.test('stores a request before answering, then erases, then notifies once per affected source', async (t) => {
  const { parts, calls, notices, finished } = createParts();
  const id = await new Regulations(parts).file(request);
  t.equal(calls[0], 'save INITIALIZED');
  t.notOk(
    calls.some((call) => call.startsWith('engines')),
    'the work is done in the background',
  );
  t.match(await finished(id), { status: 'FINISHED', finishedAt: Number });
  t.strictSame(calls.slice(1), [
    'save RUNNING',
    // With whom was told of them.
    'save RUNNING',
    'engines u1,u2',
    ...['erase u1,u2 from null', 'erase u1,u2 from next'],
    ...['erase u1,u2 from null', 'erase u1,u2 from next'],
    'accept shop 2',
    'accept personas 2',
    'accept off 2',
    'strip',
    'scrub',
    'save FINISHED',
  ]);
  t.strictSame(
    notices.map(({ source, message, lane }) => [source, message.messageId, lane, message.body]),
    // A destination that is disabled gets its notices once it is back.
    ['shop', 'personas', 'off'].flatMap((source) =>
      ['u1', 'u2'].map((user, index) => {
        const body = `{"type":"delete","userId":"${user}","timestamp":"1970-01-01T00:16:40.000Z"}`;
        return [source, `${id}-${index}`, 'deletion', body];
      }),
    ),
  );
});

t.test('affects only the sources of the request', async (t) => {
  const { parts, notices, finished } = createParts();
  const regulations = new Regulations(parts);
  await finished(await regulations.file({ ...request, sources: ['personas'] }));
  t.strictSame([...new Set(notices.map(({ source }) => source))], ['personas']);
  notices.length = 0;
  await finished(await regulations.file({ ...request, sources: ['idle'] }));
  t.equal(notices.length, 0, 'no webhooks are connected to it');
});

t.test('carries out each type of request', async (t) => {
  const does = async (type: Regulation['type']) => {
    const { parts, calls, finished } = createParts();
    await finished(await new Regulations(parts).file({ ...request, type, userIds: ['u1'] }));
    return calls.filter((call) => !call.startsWith('save'));
  };
  const tells = ['accept shop 1', 'accept personas 1', 'accept off 1', 'strip', 'scrub'];
  const erase = ['erase u1 from null', 'erase u1 from next'];
  const deletes = ['engines u1', ...erase, ...erase, ...tells];
  t.strictSame(await does('DELETE_ONLY'), deletes);
  t.strictSame(await does('SUPPRESS_WITH_DELETE'), ['suppress u1 everywhere true', ...deletes]);
  t.strictSame(await does('SUPPRESS_ONLY'), ['suppress u1 everywhere true', 'strip', 'scrub']);
  t.strictSame(await does('UNSUPPRESS'), ['suppress u1 everywhere false', 'strip', 'scrub']);
});

t.test('waits for deliveries in flight before the notice, but not for ever', async (t) => {
  const inFlight = [2, 1, 0];
  const { parts, calls, finished } = createParts({
    erase: async () => {
      calls.push('erase');
      return { cursor: null, inFlight: inFlight.shift() ?? 0 };
    },
  });
  t.match(await finished(await new Regulations(parts).file(request)), { status: 'FINISHED' });
  t.strictSame(calls.slice(4, 9), ['erase', 'erase', 'erase', 'erase', 'accept shop 2']);

  const busy = createParts({ erase: async () => ({ cursor: null, inFlight: 1 }) });
  const id = await new Regulations(busy.parts).file(request);
  t.match(await busy.finished(id), { status: 'PARTIAL_SUCCESS' }, 'what could not be taken back is not finished');
  t.equal(busy.notices.length, 6, 'a user who never stops is told of all the same');
});

t.test('deletes thousands of users in several transactions', async (t) => {
  const { parts, calls, notices, finished } = createParts({ destinations: () => [destination('crm', ['shop'])] });
  const userIds = Array.from({ length: 1_201 }, (_, index) => `u${index}`);
  await finished(await new Regulations(parts).file({ ...request, userIds }));
  t.strictSame(
    calls.filter((call) => call.startsWith('accept')),
    ['accept shop 500', 'accept shop 500', 'accept shop 201'],
  );
  t.equal(new Set(notices.map(({ message }) => message.messageId)).size, 1_201);
  t.strictSame(
    notices.map(({ message }) => message.userId),
    userIds,
  );
});

t.test('notifies destinations that only another process knows, each once', async (t) => {
  const told: (readonly [string, readonly string[] | undefined])[] = [];
  const { parts, finished } = createParts({
    destinations: () => [destination('crm', ['shop'])],
    elsewhere: async () => [
      { name: 'crm', sources: ['shop'] },
      { name: 'newest', sources: ['shop', 'web'] },
    ],
    accept: async (source, _messages, { to }) => void told.push([source, to]),
  });
  await finished(await new Regulations(parts).file({ ...request, sources: ['shop', 'web'] }));
  t.strictSame(told, [
    ['shop', ['crm', 'newest']],
    ['web', ['newest']],
  ]);
});

t.test('does not notify alert hooks, which never get user ids', async (t) => {
  const told: (readonly [string, readonly string[] | undefined])[] = [];
  const alerts = { notify: 'https://chat.example/hook' };
  const file = JSON.stringify({ sources: [{ id: 'shop', writeKey: 'k' }], alerts });
  const config = parseConfig(file, { file: 'rollcall.yaml', folder: '.', env: {} });
  const { parts, finished } = createParts({
    sources: () => [{ id: 'shop', writeKey: 'shop', enabled: true }],
    destinations: () => [destination('crm', ['shop'])],
    // Processes publish all that they deliver to.
    elsewhere: async () => alertDestinations(config.alerts),
    accept: async (source, _messages, { to }) => void told.push([source, to]),
  });
  await finished(await new Regulations(parts).file(request));
  t.strictSame(told, [['shop', ['crm']]]);
});

t.test('retries failed steps', async (t) => {
  let failures = 3;
  const { parts, notices, finished } = createParts({
    accept: async (source, messages) => {
      if (failures-- > 0) throw new RollcallError('store_full', 'Full.');
      for (const message of messages) notices.push({ source, message, lane: undefined });
    },
  });
  t.match(await finished(await new Regulations(parts).file(request)), { status: 'FINISHED' });
  t.equal(notices.length, 6);
});

t.test('reports partial success if an engine stays unreachable, and notifies receivers all the same', async (t) => {
  const errors: string[] = [];
  const { parts, notices, finished } = createParts({
    forgetInEngines: async () => Promise.reject(new Error('gone')),
    log: { error: (_details, message) => errors.push(message) },
  });
  t.match(await finished(await new Regulations(parts).file(request)), { status: 'PARTIAL_SUCCESS' });
  t.equal(notices.length, 6);
  t.match(errors, [/engine/]);
});

t.test('fails a request if the store stays unreachable, and goes on with the next', async (t) => {
  const { parts, finished } = createParts({
    erase: async ({ users }) => (users[0] === 'bad' ? Promise.reject(new Error('no')) : { cursor: null, inFlight: 0 }),
  });
  const regulations = new Regulations(parts);
  const bad = await regulations.file({ ...request, userIds: ['bad'] });
  const good = await regulations.file(request);
  t.match(await finished(bad), { status: 'FAILED' });
  t.match(await finished(good), { status: 'FINISHED' });
});

t.test('resumes after a crash at any step, with the same notices', async (t) => {
  const steps = ['forgetInEngines', 'erase', 'accept', 'save'] as const;
  for (const step of steps) {
    const reached = Promise.withResolvers<void>();
    let isDead = false;
    const hang = () => {
      isDead = true;
      reached.resolve();
      return new Promise<never>(() => {});
    };
    const state = createParts();
    const { store } = state.parts;
    let saves = 0;
    const dying = {
      ...state.parts,
      ...(step === 'forgetInEngines' && { forgetInEngines: hang }),
      ...(step === 'accept' && {
        accept: async (source: string, messages: readonly Message[]) => {
          if (source === 'personas') return hang();
          for (const message of messages) state.notices.push({ source, message, lane: 'deletion' });
          return undefined;
        },
      }),
      store: {
        ...store,
        renewLease: async () => !isDead,
        ...(step === 'erase' && { erase: hang }),
        ...(step === 'save' && {
          saveRegulation: (regulation: Regulation) => (++saves === 4 ? hang() : store.saveRegulation(regulation)),
        }),
      },
    };
    const id = await new Regulations(dying).file(request);
    await reached.promise;
    t.match(state.records.get(id), { status: 'RUNNING' }, step);
    await new Regulations(state.parts).resume();
    t.match(await state.finished(id), { status: 'FINISHED' }, step);
    const told = new Map(state.notices.map(({ source, message }) => [`${source} ${message.messageId}`, message.body]));
    t.equal(told.size, 6, 'a repeated notice has the id of the first');
  }
});

t.test('resumes only once if asked twice, and stops in the middle when closed', async (t) => {
  const { parts, calls, records, finished } = createParts();
  const begun = { status: 'RUNNING', createdAt: 0, finishedAt: null } as const;
  records.set('old', { ...request, id: 'old', ...begun, subjects: 2, hashes: [], told: null, partial: false });
  const regulations = new Regulations(parts);
  await regulations.resume();
  await regulations.resume();
  await finished('old');
  t.equal(calls.filter((call) => call.startsWith('engines')).length, 1);

  const waiting = createParts({ erase: async () => ({ cursor: null, inFlight: 1 }) });
  waiting.parts.clock.after = () => () => {};
  const closing = new Regulations(waiting.parts);
  const id = await closing.file(request);
  while (!waiting.calls.includes('engines u1,u2')) await setImmediate();
  await closing.close();
  t.match(waiting.records.get(id), { status: 'RUNNING' }, 'the next start takes it up');
  t.equal(waiting.notices.length, 0);
});

t.test(
  'works in one of several processes at a time, oldest request first, without repeating finished ones',
  async (t) => {
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    let isHeld = false;
    const state = createParts({
      takeLease: async (lease) => {
        if (isHeld) return null;
        isHeld = true;
        return { lease, token: 1 };
      },
      releaseLease: async () => {
        isHeld = false;
      },
    });
    const slow = {
      ...state.parts,
      forgetInEngines: async (ids: ErasedIds) => {
        reached.resolve();
        await gate.promise;
        await state.parts.forgetInEngines(ids, null);
      },
    };
    const first = new Regulations(slow);
    const second = new Regulations(state.parts);
    await first.file({ ...request, type: 'SUPPRESS_WITH_DELETE' });
    await reached.promise;
    await second.resume();
    const last = await second.file({ ...request, type: 'UNSUPPRESS' });
    t.match(state.records.get(last), { status: 'INITIALIZED' }, 'the second waits');
    gate.resolve();
    await state.finished(last);
    await Promise.all([first.close(), second.close()]);
    t.strictSame(
      state.calls.filter((call) => /^(suppress|engines|accept)/.test(call)),
      [
        'suppress u1,u2 everywhere true',
        'engines u1,u2',
        'accept shop 2',
        'accept personas 2',
        'accept off 2',
        'suppress u1,u2 everywhere false',
      ],
    );
  },
);

t.test('stops in the middle when another process takes over the lease', async (t) => {
  const { parts, calls, records } = createParts({
    renewLease: async () => false,
    erase: async () => ({ cursor: null, inFlight: 1 }),
  });
  const regulations = new Regulations(parts);
  const id = await regulations.file(request);
  while (!calls.includes('engines u1,u2')) await setImmediate();
  // Waiting for what is in flight takes longer than a lease goes without renewal.
  while (await regulations.resume().then(() => parts.clock.monotonic() < 1_030_000)) await setImmediate();
  await regulations.close();
  t.match(records.get(id), { status: 'RUNNING' });
  t.notOk(calls.some((call) => call.startsWith('accept')));
});
