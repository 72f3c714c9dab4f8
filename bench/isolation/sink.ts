/** The customers' servers: most answer, one always with 500, one never. Messages may be marked to be answered 500. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Of `/ok/LATENCY/OVERLOADED/NAME`: milliseconds, and percent of the answers that are 503. */
function behaviour({ url = '' }: IncomingMessage): { readonly latency: number; readonly overloaded: number } {
  const [, kind, latency, overloaded] = url.split('/');
  return kind === 'ok' ? { latency: Number(latency), overloaded: Number(overloaded) } : { latency: 0, overloaded: 0 };
}

const server = createServer((request, response) => {
  const { latency, overloaded } = behaviour(request);
  let start = '';
  request.on('data', (chunk: Buffer) => {
    if (start === '') start = chunk.toString('latin1', 0, 16);
  });
  request.on('end', () => {
    if (request.url === '/hangs') return;
    const isFault = request.url === '/fails' || start.startsWith('{"fails":true');
    const status = isFault ? 500 : Math.random() * 100 < overloaded ? 503 : 200;
    const answer = () => response.writeHead(status, { 'content-length': '2' }).end('ok');
    if (latency > 0) setTimeout(answer, latency);
    else answer();
  });
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
