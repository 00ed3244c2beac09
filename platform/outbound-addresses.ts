/**
 * Public hosts: checks of names and addresses, and connections to public addresses only (the guard
 * of outbound.ts).
 */
import type { LookupAddress, LookupOptions } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector } from 'undici';

/**
 * Error of a URL that was not fetched. `refused`: the guard did not admit it; other reasons: the
 * server is unreachable or sent an unusable response.
 */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly reason: 'refused' | 'unreachable' | 'status' | 'too_large' | 'broken';
  readonly status: number | undefined;

  constructor(reason: OutboundError['reason'], message: string, status?: number) {
    super(message);
    this.reason = reason;
    this.status = status;
  }
}

/**
 * Refuses a URL.
 * @throws OutboundError refused
 */
export function refuse(message: string): never {
  throw new OutboundError('refused', message);
}

/** Function that resolves a host name to all its addresses. */
export type ResolveName = (host: string) => Promise<LookupAddress[]>;

/** Message for a host that is refused. */
export const notPublic = 'the host does not have a public address';

/**
 * Host names that never belong to a public server (RFC 6761, 6762, 8375, and names of clouds); they
 * are refused without DNS resolution.
 */
const privateNames =
  /^[^.]+$|(^|\.)(localhost|local|internal|intranet|lan|corp|home|home\.arpa|test|invalid|onion)$/;

/**
 * Public addresses with a private use: under this one, Azure's host agent responds to its virtual
 * machines.
 */
const hostAgents = new Set(['168.63.129.16']);

/**
 * Returns whether an address is global unicast. IPv6 forms that contain an IPv4 address (mapped,
 * 6to4, NAT64, Teredo, compatible) are refused, because no public server needs them.
 */
export function isPublicAddress(address: string): boolean {
  if (!isIP(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast' || hostAgents.has(parsed.toString())) return false;
  return parsed.kind() === 'ipv4' || ((parsed.toByteArray()[0] ?? 0) & 0xe0) === 0x20;
}

/**
 * Returns whether the host of a URL may be connected to: a public address, or a name that may have
 * one.
 */
export function isPublicHost(host: string): boolean {
  return isIP(host) ? isPublicAddress(host) : !privateNames.test(host);
}

const resolver = new Resolver({ timeout: 1500, tries: 2 });

/**
 * Queries the name servers. It does not use the resolver of the operating system, which occupies
 * one of the few threads that files and images need until a caller's name server responds.
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
 * Resolves a name and refuses it if any of its addresses is not public.
 * @throws OutboundError refused, unreachable
 */
export function guardName(resolve: ResolveName = resolveByNameServer): ResolveName {
  return async (host) => {
    const found = await resolve(host);
    if (found.length === 0 || found.some((entry) => !isPublicAddress(entry.address))) {
      refuse(notPublic);
    }
    return found;
  };
}

type LookupCallback = (
  error: Error | null,
  found: LookupAddress[] | string,
  family?: number,
) => void;

/** Makes an agent that uses a guarded resolver and connects only to public addresses. */
export function guardedAgent(resolve: ResolveName): Agent {
  async function answer(host: string, all: boolean, done: LookupCallback): Promise<void> {
    let found: LookupAddress[];
    try {
      found = await resolve(host);
    } catch (error) {
      return done(error instanceof Error ? error : new Error(String(error)), []);
    }
    return all ? done(null, found) : done(null, found[0]?.address ?? '', found[0]?.family);
  }
  const lookup = (host: string, options: LookupOptions, done: LookupCallback): void =>
    void answer(host, options.all === true, done);
  const connect = buildConnector({ timeout: 5000, lookup });
  return new Agent({
    keepAliveTimeout: 10_000,
    connections: 64,
    connect(target, done) {
      connect(target, (error, socket) => {
        if (error) return done(error, null);
        if (!isPublicAddress(socket.remoteAddress ?? '')) {
          socket.destroy();
          return done(new OutboundError('refused', notPublic), null);
        }
        return done(null, socket);
      });
    },
  });
}
