/**
 * Format of API keys: `gk_live_` (for operators `gk_oper_`) + 43 base62 characters (256 random
 * bits) + 6 base62 characters (CRC-32). Because of the checksum, mistyped and random keys are
 * rejected without a database query.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const apiKeyPrefix = 'gk_live_';
/** Prefix of operators' keys. It has the same length as `apiKeyPrefix`. */
export const operatorKeyPrefix = 'gk_oper_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyPattern = /^(gk_(?:live|oper)_)([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

function encodeBase62(value: bigint, length: number): string {
  let remaining = value;
  let digits = '';
  while (digits.length < length) {
    digits = (alphabet[Number(remaining % 62n)] ?? '') + digits;
    remaining /= 62n;
  }
  return digits;
}

/** Generates a secret key, which is returned once and never stored. */
export function generateApiKey(prefix = apiKeyPrefix): string {
  const body = encodeBase62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return `${prefix}${body}${calculateChecksum(prefix, body)}`;
}

function calculateChecksum(prefix: string, body: string): string {
  return encodeBase62(BigInt(crc32(prefix + body)), 6);
}

/** Returns whether a string is a key with this prefix and a correct checksum. */
export function isApiKey(text: string, expected = apiKeyPrefix): boolean {
  const [, prefix, body = '', sum] = keyPattern.exec(text) ?? [];
  return prefix === expected && calculateChecksum(prefix, body) === sum;
}

/** Calculates the MAC that is stored instead of the key: HMAC-SHA256 with the pepper, in hex. */
export function calculateKeyMac(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** Returns the first characters of a key, which identify the key in lists. */
export function extractKeyPrefix(key: string): string {
  return key.slice(0, apiKeyPrefix.length + 4);
}
