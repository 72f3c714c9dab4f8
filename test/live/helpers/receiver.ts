import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

const isGone = (value: unknown) => value === false || value === null;

interface Heard {
  readonly key: string;
  readonly userId: string;
  readonly value: unknown;
  readonly traits: object;
  readonly reason: string;
  readonly changedAt: string;
  readonly cause?: object;
}

/** Keeps of each audience and user the value with the highest sequence, as a receiver should. */
export async function startReceiver(t: Test) {
  const told = new Map<string, { readonly sequence: number; readonly value: unknown }>();
  const faults: string[] = [];
  const heard: Heard[] = [];
  const counts = { changes: 0, leavers: 0 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      const { computation_key: key, sequence } = body.context?.personas ?? {};
      const place = `${key} ${body.userId}`;
      if (body.type === 'delete')
        for (const each of told.keys()) if (each.endsWith(` ${body.userId}`)) told.delete(each);
      if (key !== undefined) {
        take(place, sequence, body.traits[key]);
        const { traits } = body;
        heard.push({ key, userId: body.userId, value: traits[key], traits, ...body.context.personas });
      }
      response.end('{}');
    });
  });
  function take(place: string, sequence: number, value: unknown): void {
    const known = told.get(place);
    if (known && sequence < known.sequence) faults.push(`${place}: ${sequence} came after ${known.sequence}`);
    else if (sequence === known?.sequence && JSON.stringify(value) !== JSON.stringify(known.value))
      faults.push(`${place}: ${sequence} came with two values`);
    else {
      if (sequence !== known?.sequence) counts.changes += 1;
      if (known && isGone(value) && !isGone(known.value)) counts.leavers += 1;
      told.set(place, { sequence, value });
    }
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    /** Values that went backwards, or came with the same sequence and another value. */
    faults: faults as readonly string[],
    /** Every change, in the order of arrival. */
    heard: heard as readonly Heard[],
    counts: counts as Readonly<typeof counts>,
    state(key: string): Readonly<Record<string, unknown>> {
      const own = [...told].flatMap(([place, { value }]) => {
        const [of = '', user = ''] = place.split(' ');
        return of === key && !isGone(value) ? [[user, value] as const] : [];
      });
      return Object.fromEntries(own.toSorted(([a], [b]) => (a < b ? -1 : 1)));
    },
  };
}
