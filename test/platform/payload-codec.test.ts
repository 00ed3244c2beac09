import { createCipheriv, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { defaultPayloadConverter } from '@temporalio/common';
import { describe, expect, it } from 'vitest';
import { createPayloadCodec, readPayloadKeys } from '../../platform/payload-codec.ts';

/** Temporal's own definition of a payload, which comes with its SDK. */
const { temporal } = createRequire(import.meta.resolve('@temporalio/common'))(
  '@temporalio/proto',
) as { temporal: { api: { common: { v1: { Payload: PayloadMessage } } } } };
interface PayloadMessage {
  encode: (payload: Payload) => { finish: () => Uint8Array };
}

const key = (id: string): string => `${id}:${randomBytes(32).toString('base64url')}`;
const createCodec = (keys: string, encrypts = true): PayloadCodec =>
  createPayloadCodec({ PAYLOAD_KEYS: readPayloadKeys(keys), PAYLOAD_ENCRYPTION: encrypts });
const makePayload = (value: unknown): Payload => defaultPayloadConverter.toPayload(value) ?? {};
const readValue = (payload: Payload): unknown => defaultPayloadConverter.fromPayload(payload);
async function one(turned: Promise<Payload[]>): Promise<Payload> {
  const [payload] = await turned;
  if (!payload) throw new Error('a payload comes back');
  return payload;
}
const secret = 'a lighthouse that nobody may read of';

describe('encrypted payloads', () => {
  it('contain nothing readable, and decrypt to the original', async () => {
    const codec = createCodec(key('one'));
    const bytes = new Uint8Array([1, 2]);
    const values = [{ prompt: secret }, secret, null, bytes, [], 'ü'.repeat(90_000)];
    for (const value of values) {
      const sealed = await one(codec.encode([makePayload(value)]));
      expect(Buffer.from(sealed.data ?? []).toString('latin1')).not.toContain(secret.slice(2, 12));
      expect(Object.keys(sealed.metadata ?? {})).toEqual(['encoding', 'encryption-key-id']);
      expect(readValue(await one(codec.decode([sealed])))).toEqual(value);
    }
  });

  it('differ each time, even for the same value', async () => {
    const codec = createCodec(key('one'));
    const seen = new Set<string>();
    for (let round = 0; round < 200; round += 1) {
      const sealed = await one(codec.encode([makePayload(secret)]));
      seen.add(Buffer.from(sealed.data ?? []).toString('hex', 0, 12));
    }
    expect(seen.size).toBe(200);
  });

  it('have the format of Temporal’s samples', async () => {
    const keys = key('theirs');
    const [{ secret: bytes } = { secret: Buffer.alloc(0) }] = readPayloadKeys(keys);
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', bytes, nonce);
    const message = temporal.api.common.v1.Payload.encode(makePayload(secret)).finish();
    const sealed = [cipher.update(message), cipher.final(), cipher.getAuthTag()];
    const data = Buffer.concat([nonce, ...sealed]);
    const metadata = {
      encoding: Buffer.from('binary/encrypted'),
      'encryption-key-id': Buffer.from('theirs'),
    };
    expect(readValue(await one(createCodec(keys).decode([{ metadata, data }])))).toBe(secret);
  });

  it('are rejected if they were changed, cut, or encrypted with an unknown key', async () => {
    const codec = createCodec(key('one'));
    const sealed = await one(codec.encode([makePayload({ prompt: secret })]));
    const bytes = Buffer.from(sealed.data ?? []);
    const changed = [0, 11, 12, 20, bytes.length - 17, bytes.length - 1].map((at) =>
      bytes.with(at, (bytes[at] ?? 0) ^ 1),
    );
    const short = [0, 5, 12, 27, 28, bytes.length - 1].map((length) => bytes.subarray(0, length));
    for (const data of [...changed, ...short]) {
      await expect(codec.decode([{ ...sealed, data }])).rejects.toThrow('cannot be decrypted');
    }
    await expect(createCodec(key('one')).decode([sealed])).rejects.toThrow('cannot be decrypted');
    await expect(createCodec(key('two')).decode([sealed])).rejects.toThrow(
      '"one" is not configured',
    );
  });
});

describe('payload keys', () => {
  it('rotate: the first encrypts, all decrypt, plain payloads stay readable', async () => {
    const [old, young] = [key('old'), key('young')];
    const before = await one(createCodec(old).encode([makePayload(secret)]));
    const rotated = createCodec(`${young},${old}`);
    const after = await one(rotated.encode([makePayload(secret)]));
    expect(Buffer.from(after.metadata?.['encryption-key-id'] ?? []).toString()).toBe('young');
    for (const payload of [before, after, makePayload(secret)]) {
      expect(readValue(await one(rotated.decode([payload])))).toBe(secret);
    }
  });

  it('only decrypt when encryption is off', async () => {
    const keys = key('one');
    const sealed = await one(createCodec(keys).encode([makePayload(secret)]));
    const off = createCodec(keys, false);
    expect(await one(off.encode([makePayload(secret)]))).toEqual(makePayload(secret));
    expect(readValue(await one(off.decode([sealed])))).toBe(secret);
  });

  it.each([
    ['', 'id:key'],
    ['onlyonepart', '32 bytes'],
    [`a b:${randomBytes(32).toString('base64')}`, 'id:key'],
    [`a:${randomBytes(31).toString('base64')}`, '32 bytes'],
    [`a:${randomBytes(33).toString('base64')}`, '32 bytes'],
    [`a:${'!'.repeat(43)}`, '32 bytes'],
    [`a:${Buffer.alloc(32, 7).toString('base64')}`, 'random'],
    [`a:b:${randomBytes(32).toString('base64')}`, 'id:key'],
    [`${key('a')},${key('a')}`, 'unique id'],
    [`${key('a')},`, 'id:key'],
  ])('are rejected if they are malformed: %s', (text, complaint) => {
    expect(() => readPayloadKeys(text)).toThrow(complaint);
  });
});
