/**
 * Connections of outgoing requests, which go through the proxy of HTTPS_PROXY and HTTP_PROXY except
 * to the hosts of NO_PROXY, and the errors that occur before the first byte of a request is sent. The
 * place of an error decides, not its code: a reset is such an error while TLS is being negotiated,
 * but not afterwards.
 */
import { Agent, buildConnector, EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici';
import { readNoProxy, type TemporalConfig } from './config.ts';

/** Time limit of a connection with its TLS handshake, in milliseconds. */
const connectTimeoutMs = 5000;

/** Errors of connectors. Requests that wait for the connection fail with the same object. */
const connectErrors = new WeakSet<Error>();

/** Codes of undici's errors for a URL, a header or another argument, which it rejects unsent. */
const argumentCodes = new Set(['UND_ERR_INVALID_ARG', 'ERR_INVALID_URL', 'ERR_INVALID_ARG_TYPE']);

interface AgentOptions extends Pick<
  Agent.Options,
  'connections' | 'keepAliveTimeout' | 'headersTimeout' | 'bodyTimeout'
> {
  /** Connector of requests without a proxy. By default, it connects to any address. */
  connect?: buildConnector.connector;
  /**
   * Returns the address to which a proxy must open a tunnel instead of this one, both host:port. By
   * default, the proxy resolves the host name itself.
   */
  resolveTunnel?: (address: string) => Promise<string>;
}

/** Returns the hosts that are reached without a proxy. This machine is always one of them. */
const listDirectHosts = (noProxy = ''): string => `${noProxy},localhost,127.0.0.1,::1`;

/**
 * Creates an agent with connections of its own. undici reads the variables of proxies, in lower case
 * first. A request that fails because of its connection, its tunnel or its TLS handshake is unsent.
 */
export function createAgent({ resolveTunnel, ...options }: AgentOptions): EnvHttpProxyAgent {
  return new EnvHttpProxyAgent({
    connect: buildConnector({ timeout: connectTimeoutMs }),
    connectTimeout: connectTimeoutMs,
    noProxy: listDirectHosts(readNoProxy()),
    ...options,
    factory: (origin, pool: Pool.Options) =>
      new Pool(origin, { ...pool, connect: markErrors(pool.connect) }),
    clientFactory(origin, pool: Pool.Options) {
      const proxy = new Pool(origin, { ...pool, headersTimeout: connectTimeoutMs });
      if (!resolveTunnel) return proxy;
      const open = proxy.connect.bind(proxy);
      return Object.assign(proxy, {
        async connect(tunnel: Dispatcher.ConnectOptions): Promise<Dispatcher.ConnectData> {
          const path = await resolveTunnel(tunnel.path);
          return open({ ...tunnel, path, headers: { ...tunnel.headers, host: path } });
        },
      });
    },
  });
}

/** Wraps a connector so that its errors are known as errors before the first byte. */
function markErrors(connect: Pool.Options['connect']): buildConnector.connector {
  const connectTo = typeof connect === 'function' ? connect : buildConnector(connect);
  return (target, callback) =>
    connectTo(target, (...result) => {
      if (result[0]) connectErrors.add(result[0]);
      callback(...result);
    });
}

/**
 * Returns the proxy for a TLS connection to host:port, or null. The rules are those of undici: a
 * name in NO_PROXY includes its subdomains, `*.name` only these, and `*` is every host.
 */
export function findProxy(
  address: string,
  { HTTPS_PROXY, HTTP_PROXY, NO_PROXY }: Partial<TemporalConfig>,
): URL | null {
  const proxy = HTTPS_PROXY ?? HTTP_PROXY;
  const { hostname, port } = new URL(`https://${address}`);
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const isExempt = listDirectHosts(NO_PROXY)
    .split(/[,\s]+/)
    .some((entry) => {
      // An IPv6 address without brackets has no port.
      const [, bracketed, name = entry, entryPort] =
        /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [];
      const suffix = (bracketed ?? name).replace(/^\*?\./, '').replace(/\.$/, '');
      if (suffix === '' || (entryPort !== undefined && entryPort !== (port || '443'))) return false;
      if (suffix === '*' || host.endsWith(`.${suffix}`)) return true;
      return host === suffix && !entry.startsWith('*');
    });
  return proxy === undefined || isExempt ? null : new URL(proxy);
}

/**
 * Returns the code of an error that occurred before the first byte of the request was sent, so that
 * the other server certainly did not accept it. Returns null for any other error.
 */
export function findUnsentCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error ? String(error.code) : 'NOT_CONNECTED';
  return connectErrors.has(error) || argumentCodes.has(code) ? code : null;
}
