import { kinds } from '../bodies.ts';
import { type Secret, sign } from '../signature.ts';
import { createSender, type Sender, type SendOptions, webhook } from './sender.ts';

/** The receiver to try. Its handlers must cope with made-up users and events. */
export interface Target {
  url: string;
  secret: Secret;
}

/** One thing that a receiver must get right. */
export interface ConformanceCase {
  name: string;
  /** Any of these statuses is right. */
  expected: readonly number[];
  /** All statuses that the receiver answered with. */
  run(sender: Sender, target: Target): Promise<number[]>;
}

export interface CaseResult {
  name: string;
  expected: readonly number[];
  got: number[];
  passed: boolean;
  /** Why there was no answer. */
  error?: string;
}

const success = [200, 201, 202, 204];
const track = () => JSON.stringify(webhook('track'));
const withText = (text: string) => `${track().slice(0, -1)},"text":${text}}`;

type Body = () => string | Buffer;

const sends = (name: string, expected: readonly number[], body: Body, options: SendOptions = {}): ConformanceCase => ({
  name,
  expected,
  run: async (sender) => [(await sender.send(body(), options)).status],
});

/** The signature header made from the right one. */
const header = (
  name: string,
  forge: (signature: string, body: string, secret: Secret) => string | string[] | undefined,
) => ({
  name: `signature: ${name}`,
  expected: [401],
  async run(sender: Sender, { secret }: Target) {
    const body = track();
    return [(await sender.send(body, { headers: { 'x-signature': forge(sign(body, secret), body, secret) } })).status];
  },
});

const validCases = kinds.map((kind) => sends(`valid ${kind}`, success, () => JSON.stringify(webhook(kind))));

const signatureCases: ConformanceCase[] = [
  header('missing', () => undefined),
  header('of another body', (_, body, secret) => sign(`${body} `, secret)),
  header('with another secret', (_, body) => sign(body, 'not the secret')),
  header('uppercase', (signature) => signature.toUpperCase().replace(/^\d*$/, 'A')),
  header('39 characters', (signature) => signature.slice(1)),
  header('41 characters', (signature) => `${signature}0`),
  header('prefix sha1=', (signature) => `sha1=${signature}`),
  header('trailing junk', (signature) => `${signature};`),
  header('sent twice', (signature) => [signature, signature]),
  {
    name: 'signature: of the body parsed and stringified again',
    expected: [401],
    async run(sender, { secret }) {
      const body = track();
      const headers = { 'x-signature': sign(body, secret) };
      return [(await sender.send(JSON.stringify(JSON.parse(body), null, 1), { headers })).status];
    },
  },
  sends('unsigned, without body and content-type', [401], () => '', {
    headers: { 'x-signature': undefined, 'content-type': undefined },
  }),
  {
    name: 'one bit flipped on the way',
    expected: [401],
    run: async (sender) => [(await sender.corrupt(track())).status],
  },
];

const bodyCases: ConformanceCase[] = [
  sends('body: empty', [400], () => ''),
  sends('body: {}', [400], () => '{}'),
  sends('body: byte order mark', [400], () => `\uFEFF${track()}`),
  sends('body: not JSON', [400], () => 'type=track'),
  sends('body: null', [400], () => 'null'),
  sends('body: a string', [400], () => '"track"'),
  sends('body: an array', [400], () => `[${track()}]`),
  sends('body: a track without event', [400], () => JSON.stringify(webhook('track', { event: undefined }))),
  sends('body: invalid UTF-8', success, () => Buffer.from(withText('"\xff\xfe"'), 'latin1')),
  sends('body: escapes', success, () => withText('"\\u00e4\\ud83c\\udf89\\/\\n"')),
  sends('body: 1.0 and 1e2', success, () => withText('[1.0,1e2]')),
  sends('body: white space between the tokens', success, () => JSON.stringify(webhook('track'), null, 2)),
  {
    name: 'body: cut into pieces inside a multibyte character',
    expected: success,
    async run(sender) {
      const bytes = Buffer.from(withText('"🎉"'));
      const pieces = [bytes.indexOf(0xf0) + 1, 1];
      return [(await sender.send(bytes, { pieces, delay: 5, headers: { 'content-length': undefined } })).status];
    },
  },
  sends('body: a type of the future', success, () => JSON.stringify(webhook('track', { type: 'survey' }))),
  sends('body: __proto__ as type', success, () => JSON.stringify(webhook('track', { type: '__proto__' }))),
  sends('body: __proto__ as key', success, () => withText('{"__proto__":{"admin":true}}')),
];

const requestCases: ConformanceCase[] = [
  sends('content-type: text/plain', [415], track, { headers: { 'content-type': 'text/plain' } }),
  sends('content-type: missing', [415], track, { headers: { 'content-type': undefined } }),
  sends('content-type: with charset', success, track, {
    headers: { 'content-type': 'application/json; charset=utf-8' },
  }),
  sends('content-encoding: gzip', [415], track, { headers: { 'content-encoding': 'gzip' } }),
  {
    name: 'too large, told before the body is read',
    expected: [413],
    async run(sender) {
      const headers = { 'content-length': String(2 ** 30) };
      const bytes = Buffer.from(track());
      return [(await sender.send(bytes, { headers, pieces: [bytes.length], unfinished: true })).status];
    },
  },
  {
    name: 'the same bytes twice',
    expected: success,
    run: async (sender) => (await sender.repeat(webhook('track'), 2)).map(({ status }) => status),
  },
  {
    name: 'the same bytes three times at once',
    expected: success,
    run: async (sender) => (await sender.together(webhook('track'), 3)).map(({ status }) => status),
  },
  {
    name: 'a good request after one that was cut off',
    expected: success,
    async run(sender) {
      const body = track();
      await sender.cutOff(body);
      return [(await sender.send(body)).status];
    },
  },
];

/** All cases, in the order in which they are tried. */
export const conformanceCases: readonly ConformanceCase[] = [
  ...validCases,
  ...signatureCases,
  ...bodyCases,
  ...requestCases,
];

async function tryCase({ name, expected, run }: ConformanceCase, target: Target): Promise<CaseResult> {
  try {
    const got = await run(createSender(target), target);
    return { name, expected, got, passed: got.every((status) => expected.includes(status)) };
  } catch (error) {
    return { name, expected, got: [], passed: false, error: String(error) };
  }
}

/** Tries a receiver, case by case. */
export async function* conformance(target: Target): AsyncGenerator<CaseResult> {
  for (const each of conformanceCases) yield await tryCase(each, target);
}
