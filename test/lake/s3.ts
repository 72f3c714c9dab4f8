import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface S3Object {
  readonly body: Buffer;
  readonly changed: Date;
}

/** The part of S3 that reading needs. It knows the key `KEY` only. */
export async function startS3() {
  const objects = new Map<string, S3Object>();
  const reads: string[] = [];
  const server = createServer(({ url = '', method, headers }, answer) => {
    const { pathname, searchParams } = new URL(url, 'http://s3');
    if (!headers.authorization?.startsWith('AWS4-HMAC-SHA256 Credential=KEY/')) {
      answer.writeHead(403).end(`<Error><Code>SignatureDoesNotMatch</Code></Error>`);
      return;
    }
    if (searchParams.has('list-type')) {
      const found = [...objects].map(
        ([key, { body, changed }]) =>
          `<Contents><Key>${key}</Key><LastModified>${changed.toISOString()}</LastModified><ETag>"${+changed}"</ETag><Size>${body.length}</Size></Contents>`,
      );
      answer.end(`<ListBucketResult><IsTruncated>false</IsTruncated>${found.join('')}</ListBucketResult>`);
      return;
    }
    const found = objects.get(pathname.replace('/bucket/', ''));
    if (!found) {
      answer.writeHead(404).end();
      return;
    }
    const { body, changed } = found;
    const [, from = 0, to = body.length - 1] = /bytes=(\d+)-(\d+)/.exec(headers.range ?? '') ?? [];
    const part = body.subarray(Number(from), Number(to) + 1);
    const range = headers.range === undefined ? {} : { 'content-range': `bytes ${from}-${to}/${body.length}` };
    if (method === 'GET') reads.push(pathname);
    answer.writeHead(headers.range === undefined ? 200 : 206, {
      ...{ 'content-length': part.length, 'last-modified': changed.toUTCString(), etag: `"${+changed}"`, ...range },
    });
    answer.end(method === 'HEAD' ? undefined : part);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let times = Date.UTC(2026, 0, 1);
  return {
    endpoint: `127.0.0.1:${port}`,
    reads,
    put(key: string, body: string | Buffer) {
      times += 60_000;
      objects.set(key, { body: Buffer.from(body), changed: new Date(times) });
    },
    close: () => server.close(),
  };
}
