import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createSecureServer } from 'node:tls';

const ANSWER = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
const LENGTH = /\r\ncontent-length: *(\d+)/i;

/**
 * The customer's server, as light as can be: on two cores, what it takes is taken from those who are measured. It reads each
 * request whole and answers it; the parent process gets its port.
 *
 * @param certificate - with it, the sink serves HTTPS
 */
export function startSink(onRequest: () => void = () => {}, certificate?: { key: string; cert: string }): void {
  const answer = (socket: Socket) => {
    let head = '';
    let missing = 0;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      for (let at = 0; at < chunk.length; ) {
        if (missing === 0) {
          // One byte is one character here.
          head += chunk.toString('latin1', at);
          const end = head.indexOf('\r\n\r\n');
          if (end === -1) return;
          at = chunk.length - (head.length - end - 4);
          missing = Number(LENGTH.exec(head.slice(0, end))?.[1]);
          head = '';
        }
        const taken = Math.min(missing, chunk.length - at);
        at += taken;
        missing -= taken;
        if (missing > 0) return;
        socket.write(ANSWER);
        onRequest();
      }
    });
  };
  const server = certificate
    ? createSecureServer({ ...certificate, noDelay: true }, answer)
    : createServer({ noDelay: true }, answer);
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
}
