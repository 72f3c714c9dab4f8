import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

/** Keeps of each audience and user the value with the highest sequence, as a receiver should. */
export async function startReceiver(t: Test) {
  const told = new Map<string, { readonly sequence: number; readonly value: unknown }>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      const { computation_key: key, sequence } = body.context?.personas ?? {};
      const place = `${key} ${body.userId}`;
      if (body.type === 'delete')
        for (const each of told.keys()) if (each.endsWith(` ${body.userId}`)) told.delete(each);
      if (key !== undefined && sequence >= (told.get(place)?.sequence ?? 0))
        told.set(place, { sequence, value: body.traits[key] });
      response.end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    state(key: string): Readonly<Record<string, unknown>> {
      const own = [...told].flatMap(([place, { value }]) => {
        const [of = '', user = ''] = place.split(' ');
        return of === key && value !== false && value !== null ? [[user, value] as const] : [];
      });
      return Object.fromEntries(own.toSorted(([a], [b]) => (a < b ? -1 : 1)));
    },
  };
}
