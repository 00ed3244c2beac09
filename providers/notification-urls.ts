/** URLs to which providers send notifications. Their MAC proves that the gateway made them. */
import { createHmac } from 'node:crypto';
import { isSecret } from '../platform/secret-comparison.ts';

/** Identification of a call in a notification URL. */
interface NotificationAddress {
  provider: string;
  jobId: string;
  callIndex: number;
}

/**
 * Creates the functions that build and check notification URLs. `publicBaseUrl` is the URL at which
 * providers reach the API.
 */
export function createNotificationUrls(options: {
  publicBaseUrl: string;
  secret: string;
  /**
   * Previous secret. URLs that were created with it remain valid, for calls that were sent before
   * the secret was changed.
   */
  previousSecret?: string | undefined;
}) {
  const { secret, previousSecret } = options;
  const computeMac = (address: NotificationAddress, key = secret): string =>
    createHmac('sha256', key)
      .update(`${address.provider}\n${address.jobId}\n${address.callIndex}`)
      .digest('base64url');
  return {
    /** Returns the URL to which the provider sends the notification of a call. */
    urlFor: (address: NotificationAddress): string =>
      `${options.publicBaseUrl}/hooks/${address.provider}/${address.jobId}/${address.callIndex}/${computeMac(address)}`,
    /** Returns whether the MAC in a received URL is valid. */
    isValid: (address: NotificationAddress, mac: string): boolean =>
      isSecret(mac, computeMac(address)) ||
      (previousSecret !== undefined && isSecret(mac, computeMac(address, previousSecret))),
  };
}
/** URLs to which providers send notifications. */
export type NotificationUrls = ReturnType<typeof createNotificationUrls>;
