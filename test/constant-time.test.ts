/** The promise of SECURITY.md: nothing that a stranger guesses is compared byte by byte. */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import t from 'tap';
import { sign, verify } from '../receivers/signature.ts';
import { standardClaim } from '../receivers/verify/headers.ts';
import { signStandard, verifyStandard } from '../receivers/verify/standard.ts';
import { Gate } from '../src/admin/guard.ts';
import { issuePass, readPass } from '../src/admin/passes.ts';
import { BrowserSessions } from '../src/admin/session.ts';
import { SignInLimit } from '../src/admin/sign-in-limit.ts';
import { RIGHTS } from '../src/config/config.ts';
import { systemClock } from '../src/kernel/clock.ts';
import { openStore } from '../src/store/open.ts';
import { NO_EVENTS } from '../src/store/port.ts';

const store = await openStore({ url: 'sqlite::memory:', maxQueued: 1 }, systemClock, NO_EVENTS);
t.teardown(() => store.close());
const token = { name: 'admin', token: 'the-token-of-the-operator', may: RIGHTS };
const tokens = [{ ...token, name: 'other', token: 'the-token-of-somebody-else' }, token];
const gate = new Gate({
  tokens: () => tokens,
  session: new BrowserSessions(systemClock, store),
  limit: new SignInLimit(systemClock),
});
const body = '{}';
const headers = signStandard(body, 'secret', { id: 'm', at: Date.now() });
const pass = issuePass('session', token, systemClock);

/** Each takes what a stranger gives, and says if it was right. */
const CHECKS: Record<
  string,
  { right: string; isRight: (given: string) => unknown | Promise<unknown>; compared: number }
> = {
  'X-Signature': { right: sign(body, 'secret'), isRight: (given) => verify(body, given, 'secret').ok, compared: 1 },
  'Standard Webhooks': {
    right: headers['webhook-signature'],
    isRight: (given) => {
      const claim = standardClaim((name) => ({ ...headers, 'webhook-signature': given })[name]);
      return typeof claim !== 'string' && verifyStandard(body, claim, ['secret']).length === 1;
    },
    compared: 1,
  },
  'an admin token': {
    right: token.token,
    isRight: (given) => {
      const request = { headers: { authorization: `Bearer ${given}` }, ip: '192.0.2.1', method: 'GET' };
      return gate.identify(request as never).catch(() => false);
    },
    compared: tokens.length,
  },
  'a session': {
    right: pass,
    isRight: (given) => readPass('session', given, tokens, Date.now()),
    compared: tokens.length,
  },
};

for (const [name, { right, isRight, compared }] of Object.entries(CHECKS)) {
  t.test(`compares ${name} in constant time, whichever place differs`, async (t) => {
    const calls = t.capture(crypto, 'timingSafeEqual', crypto.timingSafeEqual);
    t.teardown(() => syncBuiltinESMExports());
    syncBuiltinESMExports();
    t.ok(await isRight(right));
    t.equal(calls().length, compared);
    for (const place of [right.length - 20, right.length - 5]) {
      const other = right[place] === 'a' ? 'b' : 'a';
      t.notOk(await isRight(right.slice(0, place) + other + right.slice(place + 1)));
      const made = calls();
      t.equal(made.length, compared, `differs at ${place}`);
      for (const { args } of made) t.ok(args[0].byteLength >= 20, 'all of it at once');
    }
  });
}
