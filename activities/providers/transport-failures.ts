/** A submit that got no answer: what the connection's error says about it, for every provider. */
import { ProviderFailure } from './provider.ts';

/** Errors of the connection that come before any byte of the request has left. */
const beforeSending = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Only what failed before sending is certainly not accepted. */
export function failureOfTransport(error: unknown): ProviderFailure {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return beforeSending.has(code)
    ? new ProviderFailure('not_accepted', `the provider cannot be reached (${code})`, {
        cause: error,
      })
    : new ProviderFailure('unknown', 'the provider broke off while the call was sent', {
        cause: error,
      });
}
