/**
 * URLs to which providers send their notifications (design §3.5). A MAC shows that the gateway has
 * made the URL.
 */
import { createHmac } from 'node:crypto';
import { isSecret } from '../platform/secret-comparison.ts';

/** Call to which a notification belongs. */
interface NotificationAddress {
  provider: string;
  jobId: string;
  callIndex: number;
}

/**
 * Makes and checks the URLs of notifications; `publicBaseUrl` is the URL at which providers reach
 * this API.
 */
export function createNotificationUrls(options: {
  publicBaseUrl: string;
  secret: string;
  /** Former secret, whose URLs are accepted too while the calls that have them run. */
  previousSecret?: string | undefined;
}) {
  const { secret, previousSecret } = options;
  const macOf = (address: NotificationAddress, key = secret): string =>
    createHmac('sha256', key)
      .update(`${address.provider}\n${address.jobId}\n${address.callIndex}`)
      .digest('base64url');
  return {
    /** Returns the URL to which the provider sends the notification of a call. */
    urlFor: (address: NotificationAddress): string =>
      `${options.publicBaseUrl}/hooks/${address.provider}/${address.jobId}/${address.callIndex}/${macOf(address)}`,
    /** Returns whether the MAC in a received URL is valid. */
    holds: (address: NotificationAddress, mac: string): boolean =>
      isSecret(mac, macOf(address)) ||
      (previousSecret !== undefined && isSecret(mac, macOf(address, previousSecret))),
  };
}
/** URLs to which providers send notifications. */
export type NotificationUrls = ReturnType<typeof createNotificationUrls>;
