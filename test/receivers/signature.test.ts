import { execFileSync } from 'node:child_process';
import { createHmac, createSecretKey, randomBytes } from 'node:crypto';
import t from 'tap';
import { sign, signingKey, verify } from '../../receivers/signature.ts';

const body = '{"type":"track","event":"Käufe 購入 🎉"}';
const secret = 'shhh';
const valid = sign(body, secret);

t.test('computes the signature that openssl computes, also of non-ASCII bodies and secrets', async (t) => {
  for (const [text, key] of [
    [body, secret],
    ['{}', 'sécrèt'],
    ['', 'x'],
  ] as const) {
    const out = execFileSync('openssl', ['dgst', '-sha1', '-hmac', key], { input: text, encoding: 'utf8' });
    t.equal(sign(text, key), out.trim().split(' ').at(-1));
    t.equal(sign(Buffer.from(text), signingKey(key)), sign(text, key));
  }
});

t.test('signs keys and bodies of every length as node:crypto does', async (t) => {
  const lengths = [0, 1, 63, 64, 65, 1000, 65_535, 65_536, 65_537, 200_000];
  for (const keyLength of [1, 19, 20, 21, 63, 64, 65, 200]) {
    const key = createSecretKey(randomBytes(keyLength));
    for (const length of lengths) {
      const bytes = randomBytes(length);
      const expected = createHmac('sha1', key).update(bytes).digest('hex');
      t.equal(sign(bytes, key), expected, `${keyLength} and ${length} bytes`);
      t.same(verify(new Uint8Array(bytes), expected, [createSecretKey(randomBytes(9)), key]), { ok: true, secret: 1 });
    }
  }
});

t.test('returns the secret that matched', async (t) => {
  t.same(verify(body, valid, secret), { ok: true, secret: 0 });
  t.same(verify(Buffer.from(body), valid, ['new', signingKey(secret)]), { ok: true, secret: 1 });
});

t.test('says what is wrong with a header', async (t) => {
  const cases: [string | undefined, string][] = [
    [undefined, 'signature_missing'],
    ['', 'signature_missing'],
    [valid.toUpperCase(), 'signature_malformed'],
    [valid.slice(1), 'signature_malformed'],
    [`${valid}0`, 'signature_malformed'],
    [`sha1=${valid}`, 'signature_malformed'],
    [`${valid}\n`, 'signature_malformed'],
    [`${valid}, ${valid}`, 'signature_malformed'],
    [sign(`${body} `, secret), 'signature_mismatch'],
    [sign(body, 'other'), 'signature_mismatch'],
  ];
  for (const [header, reason] of cases) t.same(verify(body, header, secret), { ok: false, reason }, String(header));
  t.same(verify(body, valid, []), { ok: false, reason: 'signature_mismatch' });
});

t.test('refuses an empty secret, because anyone could sign with it', async (t) => {
  t.throws(() => signingKey(''), TypeError);
  t.throws(() => signingKey(createSecretKey(Buffer.alloc(0))), TypeError);
  t.throws(() => sign(body, ''), TypeError);
  t.throws(() => verify(body, valid, ['']), TypeError);
  t.throws(() => verify(Buffer.from(body), valid, createSecretKey(Buffer.alloc(0))), TypeError);
});
