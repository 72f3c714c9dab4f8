import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { verify } from '../../receivers/signature.ts';

/** The belief of a receiver that goes by `sequence` about one user in one audience. */
interface Standing {
  readonly value: boolean;
  readonly sequence: number;
}

interface Body {
  readonly messageId?: string;
  readonly userId?: string;
  readonly traits?: Readonly<Record<string, unknown>>;
  readonly context?: { readonly personas?: { readonly computation_key: string; readonly sequence: number } };
}

/** All receivers of a fleet: `/crm`, `/crm-2` and so on, where what follows the hyphen is another URL of one destination. */
export class FleetLedger {
  /** `destination messageId`, answered with 200. */
  readonly taken = new Set<string>();
  /** By `destination key user`. */
  readonly standings = new Map<string, Standing>();
  /** Membership changes answered with 200 that were older than one before. */
  backwards = 0;
  unsigned = 0;
  /** Destinations that are down. */
  readonly down = new Set<string>();
  private readonly secrets: readonly string[];
  private readonly random: (most: number) => number;
  private readonly server = createServer((request, response) => void this.answer(request, response));
  private onTaken: (() => void) | null = null;

  constructor(secrets: readonly string[], random: (most: number) => number) {
    this.secrets = secrets;
    this.random = random;
  }

  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `http://127.0.0.1:${(this.server.address() as { port: number }).port}`;
  }

  /** Resolves once `isDone`, which is asked after every message. */
  async until(isDone: () => boolean): Promise<void> {
    while (!isDone()) await new Promise<void>((resolve) => (this.onTaken = resolve));
  }

  members(destination: string, key: string): string[] {
    const prefix = `${destination} ${key} `;
    const theirs = [...this.standings].filter(([name, { value }]) => value && name.startsWith(prefix));
    return theirs.map(([name]) => name.slice(prefix.length)).sort();
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const bytes = await buffer(request).catch(() => null);
    if (!bytes) return;
    const [destination = ''] = (request.url ?? '').slice(1).split('-');
    const signature = String(request.headers['x-signature']);
    if (!this.secrets.some((secret) => verify(bytes, signature, secret).ok)) this.unsigned += 1;
    const fails = this.down.has(destination) || this.random(100) <= 3;
    response.writeHead(fails ? 503 : 200).end();
    if (!fails) this.take(destination, JSON.parse(bytes.toString()) as Body);
  }

  private take(destination: string, { messageId, userId, traits = {}, context }: Body): void {
    if (messageId !== undefined) this.taken.add(`${destination} ${messageId}`);
    const { computation_key: key, sequence } = context?.personas ?? { computation_key: '', sequence: 0 };
    if (key !== '') {
      const name = `${destination} ${key} ${userId}`;
      if (sequence < (this.standings.get(name)?.sequence ?? 0)) this.backwards += 1;
      else this.standings.set(name, { value: traits[key] === true, sequence });
    }
    this.onTaken?.();
  }
}
