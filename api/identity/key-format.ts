/**
 * API keys: `gk_live_` + 43 base62 characters (256 random bits) + 6 base62 characters of CRC-32. The
 * checksum lets typos and scanners' noise be refused before the database is asked; it is no secret.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const prefix = 'gk_live_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const form = /^gk_live_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

function base62(value: bigint, length: number): string {
  let rest = value;
  let digits = '';
  while (digits.length < length) {
    digits = (alphabet[Number(rest % 62n)] ?? '') + digits;
    rest /= 62n;
  }
  return digits;
}

/** A new secret key. It is shown once and never stored. */
export function newApiKey(): string {
  // 43 base62 digits hold 256 bits, so no random bit is lost.
  const body = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return `${prefix}${body}${checksum(body)}`;
}

function checksum(body: string): string {
  return base62(BigInt(crc32(prefix + body)), 6);
}

/** Whether a word can be a key of ours at all. */
export function isApiKey(word: string): boolean {
  const [, body = '', sum] = form.exec(word) ?? [];
  return sum !== undefined && checksum(body) === sum;
}

/** What is stored and looked up: HMAC-SHA256 of the key under the pepper, as hex. */
export function macOfKey(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** What is shown of a key afterwards. */
export function prefixOfKey(key: string): string {
  return key.slice(0, prefix.length + 4);
}
