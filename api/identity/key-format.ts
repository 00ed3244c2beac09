/**
 * Format of API keys: `gk_live_` (for operators `gk_oper_`) + 43 base62 characters (256 random
 * bits) + 6 base62 characters of CRC-32. With the checksum, mistyped and random keys are rejected
 * without a database query; it is not a secret.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const apiKeyPrefix = 'gk_live_';
/** Prefix of operators' keys, as long as that of API keys. */
export const operatorKeyPrefix = 'gk_oper_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const form = /^(gk_(?:live|oper)_)([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

function base62(value: bigint, length: number): string {
  let rest = value;
  let digits = '';
  while (digits.length < length) {
    digits = (alphabet[Number(rest % 62n)] ?? '') + digits;
    rest /= 62n;
  }
  return digits;
}

/** Makes a secret key, which is shown once and never stored. */
export function newApiKey(prefix = apiKeyPrefix): string {
  // 43 base62 digits hold all 256 random bits.
  const body = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return `${prefix}${body}${checksum(prefix, body)}`;
}

function checksum(prefix: string, body: string): string {
  return base62(BigInt(crc32(prefix + body)), 6);
}

/** Returns whether a text is a key with this prefix and a correct checksum. */
export function isApiKey(text: string, expected = apiKeyPrefix): boolean {
  const [, prefix, body = '', sum] = form.exec(text) ?? [];
  return prefix === expected && checksum(prefix, body) === sum;
}

/** Returns the MAC that is stored and looked up: HMAC-SHA256 of the key with the pepper, as hex. */
export function macOfKey(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** Returns the first characters of a key, which are shown in lists. */
export function prefixOfKey(key: string): string {
  return key.slice(0, apiKeyPrefix.length + 4);
}
