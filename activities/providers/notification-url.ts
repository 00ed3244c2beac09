/**
 * The address that a provider is told to notify: it names provider, job and call and carries a MAC, so
 * that even a notification that comes before the submit's answer finds its job (design §3.5).
 */
import { createHmac } from 'node:crypto';
import { isSecret } from '../../platform/secret-comparison.ts';

/** Whom a notification is for. */
export interface NotificationAddress {
  provider: string;
  jobId: string;
  callIndex: number;
}

/** Makes and checks notification addresses. */
export interface NotificationUrls {
  urlFor: (address: NotificationAddress) => string;
  /** Whether we made this address. */
  holds: (address: NotificationAddress, mac: string) => boolean;
}

/** `publicBaseUrl`: where the provider reaches this API. */
export function createNotificationUrls(options: {
  publicBaseUrl: string;
  secret: string;
}): NotificationUrls {
  const macOf = (address: NotificationAddress): string =>
    createHmac('sha256', options.secret)
      .update(`${address.provider}\n${address.jobId}\n${address.callIndex}`)
      .digest('base64url');
  return {
    urlFor: (address) =>
      `${options.publicBaseUrl}/hooks/${address.provider}/${address.jobId}/${address.callIndex}/${macOf(address)}`,
    holds: (address, mac) => isSecret(mac, macOf(address)),
  };
}
