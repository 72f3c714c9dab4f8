import t from 'tap';
import { createVerifyAndParse } from '../../receivers/index.ts';
import { envelope, signed, webhook } from '../../receivers/testing.ts';
import { silent } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

const request = (body: unknown, key = secret, how?: Parameters<typeof signed>[2]) =>
  new Request('https://app.example/hooks', { method: 'POST', ...signed(body, key, how) });

t.test('verifies and parses a request, and does nothing else', async (t) => {
  const verifyAndParse = createVerifyAndParse({ secret: ['new', secret], signing: 'both', log: silent });
  const body = webhook('track');
  const verified = await verifyAndParse(request(body));
  t.match(verified, { ok: true, isBatch: false, secret: 1, messages: [{ ok: true, known: true, message: body }] });
  const again = await verifyAndParse(request(body, secret, { signing: 'standard', id: 'a' }));
  t.match(again, { ok: true, messages: [{ key: 'a' }] }, 'it remembers nothing');
  t.match(await verifyAndParse(request({ type: 'survey' })), { messages: [{ ok: true, known: false }] });
  t.match(await verifyAndParse(request('[]')), { ok: true, messages: [{ ok: false, reason: 'array_body' }] });
});

t.test('returns the messages of a batch in their order', async (t) => {
  const verifyAndParse = createVerifyAndParse({ secret, log: silent });
  const bodies = [webhook('track'), {}, webhook('delete')];
  t.match(await verifyAndParse(request(envelope(bodies, { keys: ['a', 'b', 'c'] }))), {
    isBatch: true,
    messages: [
      { ok: true, key: 'a', message: { type: 'track' } },
      { ok: false, key: 'b', reason: 'invalid_body' },
      { ok: true, key: 'c', message: { type: 'delete' } },
    ],
  });
});

t.test('returns the answer to give with an untrusted request', async (t) => {
  const verifyAndParse = createVerifyAndParse({ secret, log: silent });
  const refused = await verifyAndParse(request(webhook('track'), 'another'));
  if (refused.ok) return t.fail('it is refused');
  t.equal(refused.code, 'signature_mismatch');
  t.equal(refused.response.status, 401);
  t.match(await refused.response.json(), { code: 'signature_mismatch' });
  const locked = request(webhook('track'));
  locked.body?.getReader();
  t.match(await verifyAndParse(locked), { ok: false, code: 'body_already_read' });
});
