import { setTimeout as wait } from 'node:timers/promises';
import { kinds } from '../bodies.ts';
import { type Secret, sign } from '../signature.ts';
import { signStandard } from '../verify/standard.ts';
import { createSender, type Sender, type SendOptions, type Sent, type Signing, webhook } from './sender.ts';

/** The receiver to test. Its handlers must cope with made-up users and events. */
export interface Target {
  url: string;
  secret: Secret;
  /** The headers that sign requests (default: `X-Signature`). */
  signing?: Signing | undefined;
  /** True to test batches too. */
  batches?: boolean | undefined;
  /** Milliseconds until a request without an answer fails (default 10,000). */
  timeout?: number | undefined;
  /**
   * Everything that the receiver's handlers have written so far, with the `messageId` of each message that they handle. Without it,
   * nothing shows that repetitions are handled once, and changes in order.
   */
  handled?: (() => string | Promise<string>) | undefined;
}

/** One thing that a receiver should get right. */
export interface ConformanceCase {
  name: string;
  /** Any of these statuses is right. */
  expected: readonly number[];
  /** Any other status loses messages, or takes forged ones. Absent if the sender sends no such request. */
  must?: readonly number[] | undefined;
  /** All statuses that the receiver answered with. */
  run(sender: Sender, target: Target): Promise<number[]>;
}

export interface CaseResult {
  name: string;
  expected: readonly number[];
  got: number[];
  passed: boolean;
  /** `wrong` if a right receiver can't answer so; `advice` for requests that the sender does not send. */
  verdict: 'right' | 'advice' | 'wrong';
  /** The reason for a missing answer. */
  error?: string;
}

const success = [200, 201, 202, 204];
const refusal = [400, 401, 403];
/** Success, or a request to send it again. */
const successOrLater = [...success, 408, 425, 429, 500, 502, 503, 504];
const track = () => JSON.stringify(webhook('track'));
const withText = (text: string) => `${track().slice(0, -1)},"text":${text}}`;

type Body = () => string | Buffer;

type Statuses = readonly number[];

const answers = (
  name: string,
  expected: Statuses,
  must: Statuses | undefined,
  run: (sender: Sender, target: Target) => Promise<Sent | Sent[]>,
): ConformanceCase => ({
  name,
  expected,
  must,
  run: async (sender, target) => [await run(sender, target)].flat().map(({ status }) => status),
});

const sends = (name: string, expected: Statuses, body: Body, options: SendOptions = {}, must?: Statuses) =>
  answers(name, expected, must, (sender) => sender.send(body(), options));

/** A case whose signature header is derived from the right one. */
const header = (
  name: string,
  forge: (signature: string, body: string, secret: Secret) => string | string[] | undefined,
  must?: Statuses,
) =>
  answers(`signature: ${name}`, [401], must, (sender, { secret }) => {
    const body = track();
    return sender.send(body, { headers: { 'x-signature': forge(sign(body, secret), body, secret) } });
  });

const valid = (name: string, body: Body): ConformanceCase => sends(`valid ${name}`, success, body, {}, success);

const validCases = [
  ...kinds.map((kind) => valid(kind, () => JSON.stringify(webhook(kind)))),
  // A receiver that verifies what it has parsed and written again fails in most languages.
  valid('text', () => JSON.stringify(webhook('track', { properties: { b: 'Grüße </> 🎉', a: 1.5 } }))),
];

const signatureCases: ConformanceCase[] = [
  header('missing', () => undefined, refusal),
  header('of another body', (_, body, secret) => sign(`${body} `, secret), refusal),
  header('with another secret', (_, body) => sign(body, 'not the secret'), refusal),
  header('uppercase', (signature) => signature.toUpperCase().replace(/^\d*$/, 'A')),
  header('39 characters', (signature) => signature.slice(1), refusal),
  header('41 characters', (signature) => `${signature}0`, refusal),
  header('prefix sha1=', (signature) => `sha1=${signature}`),
  header('trailing junk', (signature) => `${signature};`),
  header('sent twice', (signature) => [signature, signature]),
  answers('signature: of the body parsed and stringified again', [401], undefined, (sender, { secret }) => {
    const body = track();
    const headers = { 'x-signature': sign(body, secret) };
    return sender.send(JSON.stringify(JSON.parse(body), null, 1), { headers });
  }),
  sends(
    'unsigned, without body and content-type',
    [401],
    () => '',
    { headers: { 'x-signature': undefined, 'content-type': undefined } },
    refusal,
  ),
  answers('one bit flipped on the way', [401], refusal, (sender) => sender.corrupt(track())),
];

const inPieces = (name: string, options: SendOptions, must?: Statuses) =>
  answers(name, success, must, (sender) => {
    const bytes = Buffer.from(withText('"🎉"'));
    return sender.send(bytes, { pieces: [bytes.indexOf(0xf0) + 1, 1], delay: 5, ...options });
  });

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
  inPieces('body: cut into pieces inside a multibyte character', {}, success),
  inPieces('body: the same in chunks, without content-length', { headers: { 'content-length': undefined } }),
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
  answers('too large, told before the body is read', [413], undefined, (sender) => {
    const headers = { 'content-length': String(2 ** 30) };
    const bytes = Buffer.from(track());
    return sender.send(bytes, { headers, pieces: [bytes.length], unfinished: true });
  }),
  answers('the same bytes twice', success, success, (sender) => sender.repeat(webhook('track'), 2)),
  answers('the same bytes three times at once', success, successOrLater, (sender) =>
    sender.together(webhook('track'), 3),
  ),
  answers('a good request after one that was cut off', success, success, async (sender) => {
    const body = track();
    await sender.cutOff(body);
    return sender.send(body);
  }),
];

const DAY = 24 * 60 * 60 * 1000;

const byStandard = (name: string, run: (sender: Sender, target: Target) => Promise<Sent | Sent[]>) =>
  answers(`standard: ${name}`, success, success, (_, target) =>
    run(createSender({ ...target, signing: 'standard' }), target),
  );

/** A case signed by the standard, with one header derived from the right one. */
const standardHeader = (name: string, header: string, forge: (value: string) => string | undefined) => ({
  ...byStandard(name, (sender, { secret }) => {
    const body = track();
    const right = signStandard(body, secret, { id: 'msg-1', at: Date.now() });
    const given = { ...right, [header]: forge(right[header as keyof typeof right]) };
    return sender.send(body, { headers: { 'x-signature': undefined, ...given } });
  }),
  expected: [401],
  must: refusal,
});

const standardCases: ConformanceCase[] = [
  byStandard('valid', (sender) => sender.send(track())),
  standardHeader('signature missing', 'webhook-signature', () => undefined),
  standardHeader('signature of another body', 'webhook-signature', (value) => value.replace(/.{4}=$/, 'AAAA=')),
  standardHeader('another id', 'webhook-id', () => 'msg-2'),
  standardHeader('another time', 'webhook-timestamp', (value) => String(Number(value) - 1)),
  standardHeader('time that is none', 'webhook-timestamp', () => 'now'),
  standardHeader('another version only', 'webhook-signature', (value) => value.replace('v1,', 'v9,')),
  byStandard('several signatures, the last of which is right', (sender, { secret }) => {
    const body = track();
    const given = { id: `msg-${crypto.randomUUID()}`, at: Date.now() };
    return sender.send(body, { headers: { ...signStandard(body, ['another secret', secret], given) } });
  }),
  byStandard('sent twice with another time, as a retry is', async (sender) => {
    const body = track();
    const id = `msg-${crypto.randomUUID()}`;
    return [await sender.send(body, { id }), await sender.send(body, { id, at: Date.now() + 1_000 })];
  }),
];

const agedCases: ConformanceCase[] = [-DAY, DAY].map((age) => ({
  ...byStandard(`signed ${age < 0 ? 'a day ago' : 'a day ahead'}`, (sender) =>
    sender.send(track(), { at: Date.now() + age }),
  ),
  // Receivers may accept any age.
  expected: [...success, 401],
  must: undefined,
}));

interface Rejected {
  readonly index: number;
  readonly retry?: boolean;
}

/** The messages that a batch's answer rejects: none unless it is JSON. */
function rejectedBy({ type, body }: Sent): readonly Rejected[] {
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type) || body === '') return [];
  return (JSON.parse(body) as { rejected?: Rejected[] } | null)?.rejected ?? [];
}

const listed = (rejected: readonly Rejected[]) =>
  rejected.map(({ index, retry = true }) => `${index}${retry ? ' again' : ''}`).join(', ');

async function answersTo(sender: Sender, bodies: readonly unknown[], expected: string): Promise<Sent> {
  const sent = await sender.batch(bodies);
  const rejected = listed(rejectedBy(sent));
  if (rejected !== expected) throw new Error(`rejected "${rejected}" instead of "${expected}"`);
  return sent;
}

/** Retries rejected messages until all are accepted: a receiver may handle a part before its deadline and the rest later. */
async function takesAll(sender: Sender, bodies: readonly unknown[]): Promise<Sent[]> {
  const answers: Sent[] = [];
  for (let left = bodies.map((body) => ({ body, key: `key-${crypto.randomUUID()}` })); left.length > 0; ) {
    const sent = await sender.batch(
      left.map(({ body }) => body),
      { keys: left.map(({ key }) => key) },
    );
    answers.push(sent);
    const rejected = rejectedBy(sent);
    const again = left.filter((_, index) => rejected.some((each) => each.index === index && each.retry !== false));
    if (again.length < rejected.length || again.length === left.length)
      throw new Error(`rejected "${listed(rejected)}"`);
    left = again;
  }
  return answers;
}

const batchCases: ConformanceCase[] = [
  answers('batch: of one message', success, success, (sender) => answersTo(sender, [track()], '')),
  answers('batch: of all kinds', success, success, (sender) =>
    answersTo(
      sender,
      kinds.map((kind) => webhook(kind)),
      '',
    ),
  ),
  answers('batch: of 500', success, success, (sender) => takesAll(sender, Array.from({ length: 500 }, track))),
  answers('batch: with a message that is none, which is not to come again', success, undefined, (sender) =>
    answersTo(sender, [track(), '{"type":"track"}', track()], '1'),
  ),
  answers('batch: the same twice', success, success, async (sender) => {
    const keys = ['a', 'b'].map((name) => `${name}-${crypto.randomUUID()}`);
    const bodies = [track(), track()];
    return [await sender.batch(bodies, { keys }), await sender.batch(bodies, { keys })];
  }),
  ...['{"batch":[],"keys":[],"sentAt":"2026-01-01T00:00:00.000Z"}', '{"batch":[{}],"keys":[]}', '{"batch":{}}'].map(
    (body) => sends(`batch: ${body.slice(0, 24)}`, [400], () => body),
  ),
];

/** Messages by their id, and how often each must be handled. */
type Times = Readonly<Record<string, number>>;

const LOOK_EVERY = 20;

/** Waits for a message that is sent last: whatever the receiver handles of the others, it has handled by then. */
async function compareEffects(sender: Sender, { handled, timeout = 10_000 }: Target, wanted: Times): Promise<void> {
  const last = webhook('track');
  await sender.send(last);
  let log = '';
  for (let waited = 0; !log.includes(String(last['messageId'])); waited += LOOK_EVERY) {
    if (waited > timeout) throw new Error('the handler did not write the messageId of a message that was accepted');
    await wait(LOOK_EVERY);
    log = (await handled?.()) ?? '';
  }
  for (const [id, times] of Object.entries(wanted)) {
    const found = log.split(id).length - 1;
    if (found !== times) throw new Error(`handled ${found} times instead of ${times}`);
  }
}

const effect = (
  name: string,
  run: (sender: Sender, target: Target) => Promise<{ statuses: number[]; wanted: Times }>,
): ConformanceCase => ({
  name,
  expected: success,
  must: successOrLater,
  async run(sender, target) {
    const { statuses, wanted } = await run(sender, target);
    await compareEffects(sender, target, wanted);
    return statuses;
  },
});

/** Changes of one user and audience, sent in this order; the numbers say how often each must be handled. */
const changes = (name: string, given: readonly (readonly [sequence: number, times: number, other?: true])[]) =>
  effect(`order: ${name}`, async (sender) => {
    const users = { one: `u-${crypto.randomUUID()}`, other: `u-${crypto.randomUUID()}` };
    const statuses: number[] = [];
    const wanted: Record<string, number> = {};
    for (const [sequence, times, isOther] of given) {
      const personas = {
        computation_class: 'audience',
        computation_id: 'aud_check',
        computation_key: 'check',
        sequence,
      };
      const fields = { userId: isOther ? users.other : users.one, traits: { check: true }, context: { personas } };
      const body = webhook('identify', fields);
      wanted[String(body['messageId'])] = times;
      statuses.push((await sender.send(body)).status);
    }
    return { statuses, wanted };
  });

const effectCases: ConformanceCase[] = [
  effect('repetition: handled once', async (sender) => {
    const body = webhook('track');
    const sent = await sender.repeat(body, 2);
    return { statuses: sent.map(({ status }) => status), wanted: { [String(body['messageId'])]: 1 } };
  }),
  effect('repetition: handled once, though sent three times at once', async (sender) => {
    const body = webhook('track');
    await sender.together(body, 3);
    // At least one of them may have been asked to come again.
    const { status } = await sender.send(body);
    return { statuses: [status], wanted: { [String(body['messageId'])]: 1 } };
  }),
  changes('a newer change is handled', [
    [1, 1],
    [2, 1],
  ]),
  changes('an older change after a newer one is not handled', [
    [5, 1],
    [4, 0],
  ]),
  changes('each user has an order of their own', [
    [5, 1],
    [4, 1, true],
  ]),
];

const batchEffect = effect('repetition: a message of two batches is handled once', async (sender) => {
  const body = webhook('track');
  const keys = [`key-${crypto.randomUUID()}`];
  const statuses = [(await sender.batch([body], { keys })).status, (await sender.batch([body], { keys })).status];
  return { statuses, wanted: { [String(body['messageId'])]: 1 } };
});

/** All cases in the order in which they run, without those of Standard Webhooks, of batches and of `handled`. */
export const conformanceCases: readonly ConformanceCase[] = [
  ...validCases,
  ...signatureCases,
  ...bodyCases,
  ...requestCases,
];

/** The cases for a receiver. One that accepts only the standard skips those of `X-Signature`. */
function casesFor({ signing = 'x-signature', batches = false, handled }: Target): ConformanceCase[] {
  const signatures = signing === 'standard' ? [] : signatureCases;
  const standard = signing === 'x-signature' ? [] : [...standardCases, ...agedCases];
  const effects = handled === undefined ? [] : [...effectCases, ...(batches ? [batchEffect] : [])];
  const others = [...bodyCases, ...requestCases, ...(batches ? batchCases : [])];
  return [...validCases, ...signatures, ...standard, ...others, ...effects];
}

async function tryCase({ name, expected, must, run }: ConformanceCase, target: Target): Promise<CaseResult> {
  const failed = must === undefined ? 'advice' : 'wrong';
  try {
    const { signing } = target;
    const got = await run(createSender({ ...target, signing: signing === 'both' ? 'x-signature' : signing }), target);
    const passed = got.every((status) => expected.includes(status));
    const isAcceptable = must === undefined || got.every((status) => must.includes(status));
    return { name, expected, got, passed, verdict: passed ? 'right' : isAcceptable ? 'advice' : failed };
  } catch (error) {
    return { name, expected, got: [], passed: false, verdict: failed, error: String(error) };
  }
}

/** Tests a receiver, case by case. */
export async function* conformance(target: Target): AsyncGenerator<CaseResult> {
  for (const each of casesFor(target)) yield await tryCase(each, target);
}
