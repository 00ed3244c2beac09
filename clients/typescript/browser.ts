/** Client for web pages: its requests have a browser token, which the server of the page makes. */
import { StudioGateway } from './client.ts';
import type { KeySource } from './connection.ts';
import type { GatewayOptions } from './transport.ts';

/** Browser token: `data` of the response to POST /api/v1/end-users/{endUser}/tokens. */
export interface BrowserToken {
  token: string;
  /** End of the token in ISO 8601. */
  expiresAt: string;
}

/** Options of a client for web pages. */
export interface BrowserClientOptions extends Omit<GatewayOptions, 'apiKey'> {
  /** Fetches a new token from the server of the page. */
  getToken: () => Promise<BrowserToken>;
}

/** Time before the end of a token at which it is renewed, in milliseconds; at most half of its lifetime. */
const renewBeforeMs = 30_000;

/**
 * Creates a client for web pages. It fetches a token before its first request, renews it shortly before its
 * end, and repeats a request once with a new token if the gateway rejects the old one.
 */
export function createBrowserClient({ getToken, ...options }: BrowserClientOptions): StudioGateway {
  return new StudioGateway({ ...options, apiKey: createTokenSource(getToken) });
}

/** Creates the source of tokens. Requests at the same time wait for the same token. */
function createTokenSource(getToken: () => Promise<BrowserToken>): KeySource {
  let pending: Promise<string> | undefined;
  let current: string | undefined;
  let renewAtMs = Infinity;

  async function renew(): Promise<string> {
    const { token, expiresAt } = await getToken();
    const leftMs = Date.parse(expiresAt) - Date.now();
    // The clock of a device may be wrong. A token that seems to have expired is used until it is rejected.
    const isPlausible = leftMs > 0;
    renewAtMs = isPlausible
      ? performance.now() + Math.max(leftMs - renewBeforeMs, leftMs / 2)
      : Infinity;
    current = token;
    return token;
  }

  return {
    read() {
      if (performance.now() >= renewAtMs) current = undefined;
      if (current !== undefined) return Promise.resolve(current);
      pending ??= renew().finally(() => (pending = undefined));
      return pending;
    },
    reject(token) {
      if (token === current) current = undefined;
    },
  };
}
