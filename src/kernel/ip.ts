import ipaddr from 'ipaddr.js';

/** Ways to keep people's IP addresses: as they are, without the part that identifies a person, or not at all. */
export const IP_MODES = ['keep', 'anonymise', 'drop'] as const;
export type IpMode = (typeof IP_MODES)[number];

export interface IpRule {
  readonly mode: IpMode;
  /** The address that a browser sent from; null for other clients, whose address says nothing about the user. */
  readonly from: string | null;
}

/** The context with the `ip` that it may have. An address given by the client wins over the one that it sent from. */
export function withIp(context: Record<string, unknown>, { mode, from }: IpRule): Record<string, unknown> {
  const { ip: given, ...rest } = context;
  const has = typeof given === 'string' && given !== '';
  if (mode === 'keep' && has) return context;
  const ip = has ? given : from;
  const shown = ip === null || mode === 'drop' ? null : shownIp(ip, mode);
  return shown === null ? rest : { ...rest, ip: shown };
}

/** An address in brackets or with a port, as some proxies write it. */
const WITH_PORT = /^\[(.+)\](?::\d+)?$|^([\d.]+):\d+$/;

/** Null if it is not an address. Made anonymous, IPv4 keeps three of four bytes and IPv6 its first 48 bits. */
function shownIp(given: string, mode: IpMode): string | null {
  const [, inBrackets, beforePort] = WITH_PORT.exec(given) ?? [];
  const ip = inBrackets ?? beforePort ?? given;
  if (!ipaddr.isValid(ip)) return null;
  const address = ipaddr.process(ip);
  if (mode === 'keep') return address.toString();
  const kept = address.kind() === 'ipv4' ? 3 : 6;
  const bytes = address.toByteArray().map((byte, index) => (index < kept ? byte : 0));
  return ipaddr.fromByteArray(bytes).toString();
}

/** The network that one host has to itself: an IPv4 address, or the first 64 bits of an IPv6 one. */
export function networkOf(address: string): string {
  if (!address.includes(':') || !ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return ipaddr.fromByteArray(parsed.toByteArray().fill(0, 8)).toString();
}
