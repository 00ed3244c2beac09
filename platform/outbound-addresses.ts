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
 * A URL that must not be, or could not be, fetched. `refused`: by the guard; other reasons: by the
 * server.
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
 * Throws an error.
 * @throws OutboundError refused
 */
export function refuse(why: string): never {
  throw new OutboundError('refused', why);
}

/** Resolves a name to all its addresses. */
export type ResolveName = (host: string) => Promise<LookupAddress[]>;

/** Reasons for which a host is refused. */
export const notPublic = 'the host does not have a public address';

/**
 * Names that never belong to an Internet host (RFC 6761, 6762, 8375, and names of clouds); they are
 * refused without a look-up.
 */
const privateNames =
  /^[^.]+$|(^|\.)(localhost|local|internal|intranet|lan|corp|home|home\.arpa|test|invalid|onion)$/;

/** A public address with a private use: Azure's host agent responds to its own guests there. */
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
 * Queries the name servers. The look-up of the operating system would hold one of the few threads
 * that files and images need, for as long as a caller's name server likes.
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

/** Makes a connector with a guarded resolver, which connects to public addresses only. */
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
