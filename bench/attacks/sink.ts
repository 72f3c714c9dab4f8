/** A target of attacks that costs only their own work: it answers whoever has sent something. Prints its port. */
import { type AddressInfo, createServer } from 'node:net';

const server = createServer((socket) => {
  socket.on('error', () => {}).once('data', () => socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n'));
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
