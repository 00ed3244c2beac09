/** Addresses and names of public servers, the only ones to which URLs of others may lead. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * Pattern of host names that never belong to a public server (RFC 6761, RFC 6762, RFC 8375, and
 * names that clouds use). They are blocked without DNS resolution.
 */
const privateNames =
  /^[^.]+$|(^|\.)(localhost|local|internal|intranet|lan|corp|home|home\.arpa|test|invalid|onion)$/;

/** Public addresses in private use: at this one, Azure's host agent answers virtual machines. */
const hostAgents = new Set(['168.63.129.16']);

/**
 * Returns whether an address is a global unicast address. IPv6 addresses that contain an IPv4
 * address (mapped, 6to4, NAT64, Teredo, compatible) do not count, because no public server needs
 * them.
 */
export function isPublicAddress(address: string): boolean {
  if (!isIP(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast' || hostAgents.has(parsed.toString())) return false;
  return parsed.kind() === 'ipv4' || ((parsed.toByteArray()[0] ?? 0) & 0xe0) === 0x20;
}

/** Returns whether a host is a public address, or a name that may resolve to one. */
export function isPublicHost(host: string): boolean {
  return isIP(host) ? isPublicAddress(host) : !privateNames.test(host);
}
