import { sign } from '../../../receivers/signature.ts';

export const secret = 'shhh';
const timestamp = '2026-01-02T03:04:05.678Z';
const context = {};
const base = { version: 1, userId: 'u1', timestamp, context };

/** One body of each kind, as the specification shows it. */
export const samples = {
  identify: { ...base, type: 'identify', traits: { email: 'a@example.com', age: 3, nested: { deep: [1] } } },
  track: { ...base, type: 'track', event: 'Purchased', properties: { total: 1.5 } },
  page: { ...base, type: 'page', properties: { path: '/', referrer: '', title: 'Home', url: 'https://a.example/' } },
  screen: {
    ...base,
    type: 'screen',
    name: 'Home',
    context: { device: { model: 'x', type: 'ios' }, os: { name: 'iOS', version: '1' }, app: { build: '1' } },
  },
  group: { ...base, type: 'group', groupId: 'g1', traits: { plan: 'pro' } },
  alias: { version: 1, type: 'alias', 'Previous ID': 'anon', 'User ID': 'u1', timestamp, context },
  delete: { type: 'delete', userId: 'u1', timestamp },
};

export const body = (kind: keyof typeof samples) => JSON.stringify(samples[kind]);

/** A membership change, as the sender writes it. */
export const membership = (key: string, userId: string, member: boolean, sequence?: number) =>
  changeForms('audience', key, userId, { [key]: member }, sequence === undefined ? {} : { sequence })[0];

/** A change of an audience or trait in both forms: as an identify, and as an event. */
export function changeForms(
  kind: 'audience' | 'trait',
  key: string,
  userId: string,
  traits: Record<string, unknown>,
  personas: Record<string, unknown>,
): [string, string] {
  const mark = { computation_class: kind, computation_id: `id-${key}`, computation_key: key, ...personas };
  const common = { ...base, userId, context: { personas: mark } };
  const properties = { [`${kind}_key`]: key, [`${kind}_name`]: `The ${key}`, ...traits };
  const isMember = traits[key] === true;
  const event = kind === 'trait' ? 'Trait Computed' : isMember ? 'Audience Entered' : 'Audience Exited';
  return [
    JSON.stringify({ ...common, type: 'identify', traits }),
    JSON.stringify({ ...common, type: 'track', event, properties }),
  ];
}

export interface Answer {
  status: number;
  headers: Headers;
  body: unknown;
}

/** Posts signed bytes; `headers` replace or add. */
export async function post(url: string, bytes: string | Buffer, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-signature': sign(bytes, secret), ...headers },
    body: bytes as string,
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}
