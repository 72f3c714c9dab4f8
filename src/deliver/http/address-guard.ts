import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { ADDRESS_REFUSED } from '../classify.ts';

/** Returns true for addresses that may be connected to. */
export type AddressGuard = (address: string) => boolean;

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** IPv6 ranges that embed IPv4, with its offset: mapped, translated, NAT64, 6to4 (RFC 4291, 6145, 6052, 3056). */
const EMBEDDED: readonly (readonly [Range, number])[] = [
  [ipaddr.parseCIDR('::ffff:0:0/96'), 12],
  [ipaddr.parseCIDR('::ffff:0:0:0/96'), 12],
  [ipaddr.parseCIDR('64:ff9b::/96'), 12],
  [ipaddr.parseCIDR('2002::/16'), 2],
];
/** The platform of Azure, which answers to its virtual machines only, in the midst of public addresses. */
const PLATFORMS = ['168.63.129.16'];
/** Names that hosts files and resolvers give to this machine, in addition to those that end with `.localhost`. */
const LOOPBACK_NAMES =
  /(^|\.)localhost$|^(localhost[46]?|ip6-localhost|ip6-loopback)$|^localhost[46]?\.localdomain[46]?$|^loopback$/;
/** Addresses assigned for global use; everything outside is local, reserved or obsolete. */
const GLOBAL_IPV6 = ipaddr.parseCIDR('2000::/3');

/**
 * Allows public addresses and, of the others (private, loopback, link-local with the clouds' metadata, shared,
 * multicast, reserved …), only those in `allow`.
 *
 * @param allow - CIDR ranges, such as `127.0.0.0/8`
 */
export function createAddressGuard(allow: readonly string[]): AddressGuard {
  const allowed = allow.map((range) => ipaddr.parseCIDR(range));
  return (text) => {
    if (!ipaddr.isValid(text)) return false;
    const address = ipaddr.parse(text);
    return isAllowed(address, allowed) || isPublic(address, allowed);
  };
}

/** An address that embeds another is judged by the embedded one. */
function isPublic(address: Address, allowed: readonly Range[]): boolean {
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast' && !PLATFORMS.includes(address.toString());
  const embedded = embeddedIPv4(address);
  if (embedded) return isAllowed(embedded, allowed) || isPublic(embedded, allowed);
  return address.range() === 'unicast' && isAllowed(address, [GLOBAL_IPV6]);
}

function embeddedIPv4(address: ipaddr.IPv6): ipaddr.IPv4 | null {
  for (const [range, offset] of EMBEDDED) {
    if (address.match(range as [ipaddr.IPv6, number])) {
      return new ipaddr.IPv4(address.toByteArray().slice(offset, offset + 4));
    }
  }
  return null;
}

function isAllowed(address: Address, allowed: readonly Range[]): boolean {
  return allowed.some((range) => address.kind() === range[0].kind() && address.match(range as [ipaddr.IPv4, number]));
}

export function addressRefused(host: string): Error {
  const message = `${host} resolves to no address that network.allow permits.`;
  return Object.assign(new Error(message), { code: ADDRESS_REFUSED });
}

/** True if a host may be requested through a proxy, which resolves names: only addresses and local names are judged. */
export function mayBeAskedFor(hostname: string, guard: AddressGuard): boolean {
  const host = hostname.replace(/^\[|\]$|\.+$/g, '');
  if (LOOPBACK_NAMES.test(host)) return guard('127.0.0.1');
  return isIP(host) === 0 || guard(host);
}
