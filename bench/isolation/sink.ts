/** The customers' servers: one answers, one always with 500, one never. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const server = createServer((request, response) => {
  request.resume().on('end', () => {
    if (request.url === '/hangs') return;
    response.writeHead(request.url === '/fails' ? 500 : 200, { 'content-length': '2' }).end('ok');
  });
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
