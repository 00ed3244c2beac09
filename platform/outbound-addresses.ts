/** Outbound guard: checks host names and addresses, and connects only to public addresses. */
import type { LookupAddress, LookupOptions } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector } from 'undici';

/**
 * Error for a URL that could not be fetched. `blocked`: the outbound guard does not allow the
 * connection. For the other reasons, the server is unreachable or sent an unusable response.
 */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly reason: 'blocked' | 'unreachable' | 'status' | 'too_large' | 'broken';
  readonly status: number | undefined;

  constructor(reason: OutboundError['reason'], message: string, status?: number) {
    super(message);
    this.reason = reason;
    this.status = status;
  }

  /** True if another request may succeed, because the server was unreachable, busy or failed. */
  get isTemporary(): boolean {
    const { reason, status = 0 } = this;
    const isConnection = reason === 'unreachable' || reason === 'broken';
    return isConnection || [408, 425, 429].includes(status) || status >= 500;
  }
}

/** Throws the error for a URL that the outbound guard blocks. @throws OutboundError blocked */
export function throwBlocked(message: string): never {
  throw new OutboundError('blocked', message);
}

/** Function that resolves a host name to all its addresses. */
export type ResolveName = (host: string) => Promise<LookupAddress[]>;

/** Error message for a host that does not have a public address. */
export const notPublicMessage = 'the host does not have a public address';

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

const resolver = new Resolver({ timeout: 1500, tries: 2 });

/**
 * Resolves a host name by querying the name servers directly. The resolver of the operating system
 * would wait for a slow name server in one of the few threads that file and image operations need.
 */
async function resolveByNameServer(host: string): Promise<LookupAddress[]> {
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  if (v4.status === 'rejected' && v6.status === 'rejected') {
    throw new OutboundError('unreachable', 'the host name does not resolve');
  }
  return [
    ...(v4.status === 'fulfilled' ? v4.value : []).map((address) => ({ address, family: 4 })),
    ...(v6.status === 'fulfilled' ? v6.value : []).map((address) => ({ address, family: 6 })),
  ];
}

/**
 * Wraps a resolver so that a name is blocked if any of its addresses is not public.
 * @throws OutboundError blocked, unreachable
 */
export function guardResolver(resolve: ResolveName = resolveByNameServer): ResolveName {
  return async (host) => {
    const addresses = await resolve(host);
    if (addresses.length === 0 || addresses.some((entry) => !isPublicAddress(entry.address))) {
      throwBlocked(notPublicMessage);
    }
    return addresses;
  };
}

type LookupCallback = (
  error: Error | null,
  addresses: LookupAddress[] | string,
  family?: number,
) => void;

/** Creates an HTTP agent that uses a guarded resolver and connects only to public addresses. */
export function createGuardedAgent(resolve: ResolveName): Agent {
  async function lookUp(host: string, all: boolean, callback: LookupCallback): Promise<void> {
    let addresses: LookupAddress[];
    try {
      addresses = await resolve(host);
    } catch (error) {
      return callback(error instanceof Error ? error : new Error(String(error)), []);
    }
    return all
      ? callback(null, addresses)
      : callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
  }
  const lookup = (host: string, options: LookupOptions, callback: LookupCallback): void =>
    void lookUp(host, options.all === true, callback);
  const connect = buildConnector({ timeout: 5000, lookup });
  return new Agent({
    keepAliveTimeout: 10_000,
    connections: 64,
    connect(target, callback) {
      connect(target, (error, socket) => {
        if (error) return callback(error, null);
        if (!isPublicAddress(socket.remoteAddress ?? '')) {
          socket.destroy();
          return callback(new OutboundError('blocked', notPublicMessage), null);
        }
        return callback(null, socket);
      });
    },
  });
}
