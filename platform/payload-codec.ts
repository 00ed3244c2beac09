/**
 * Encryption of what Temporal keeps: with keys given, every payload (inputs, results, signals, memos,
 * messages of failures) is sealed with AES-256-GCM before it leaves a process. The form is that of
 * Temporal's own samples, so their codec servers read it too: `encoding` is `binary/encrypted`,
 * `encryption-key-id` names the key, the data is nonce, sealed protobuf of the payload, tag.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { DataConverter, Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';

/** A key of AES-256-GCM and the name that payloads know it by. */
export interface PayloadKey {
  id: string;
  secret: Buffer;
}

/** What a process needs to know about the encryption of payloads (platform/config.ts). */
export interface PayloadSettings {
  /** The first one seals; all of them open. */
  PAYLOAD_KEYS: readonly PayloadKey[];
  /** False: nothing new is sealed, the keys only open what was. */
  PAYLOAD_ENCRYPTION: boolean;
}

export const sealedEncoding = 'binary/encrypted';
const keyIdField = 'encryption-key-id';
const nonceBytes = 12;
const tagBytes = 16;
const keyBytes = 32;

const { Payload: payloadMessage } = proto.temporal.api.common.v1;

/**
 * Reads `id:key,id:key`, where a key is 32 bytes in base64 or base64url.
 * @throws Error that says what is wrong and shows no key
 */
export function readPayloadKeys(text: string): PayloadKey[] {
  const keys = text.split(',').map((entry) => {
    const [id = '', spelled = '', ...rest] = entry.trim().split(':');
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(id) || rest.length > 0) {
      throw new Error('must be id:key, separated by commas');
    }
    const secret = Buffer.from(spelled, 'base64url');
    if (!/^[\w+/=-]*$/.test(spelled) || secret.length !== keyBytes) {
      throw new Error(`must have keys of ${keyBytes} bytes in base64`);
    }
    if (new Set(secret).size < 16) throw new Error('must have random keys');
    return { id, secret };
  });
  if (new Set(keys.map(({ id }) => id)).size < keys.length) {
    throw new Error('must have an id of its own for each key');
  }
  return keys;
}

/** A payload that cannot be opened: its key is not configured, or it is not what was sealed. */
export class PayloadUnreadableError extends Error {
  override readonly name = 'PayloadUnreadableError';
}

/** Seals and opens payloads. What is not sealed is read as it is: the switch may be turned any time. */
export function createPayloadCodec(settings: PayloadSettings): PayloadCodec {
  const keys = new Map(settings.PAYLOAD_KEYS.map((key) => [key.id, key.secret]));
  const [newest] = settings.PAYLOAD_ENCRYPTION ? settings.PAYLOAD_KEYS : [];
  const open = (payload: Payload): Payload => {
    if (textOf(payload, 'encoding') !== sealedEncoding) return payload;
    const keyId = textOf(payload, keyIdField);
    const secret = keys.get(keyId);
    if (!secret) {
      throw new PayloadUnreadableError(
        `the payload key ${JSON.stringify(keyId)} is not configured`,
      );
    }
    return unseal(payload.data ?? new Uint8Array(), secret);
  };
  return {
    encode: (payloads) =>
      Promise.resolve(newest ? payloads.map((payload) => seal(payload, newest)) : payloads),
    // Inside a function that rejects: the SDK hears errors as rejections only.
    decode: async (payloads) => payloads.map(open),
  };
}

/** What clients and workers of this configuration are made with. */
export function dataConverterOf(settings: PayloadSettings): DataConverter {
  if (settings.PAYLOAD_KEYS.length === 0) return {};
  return {
    payloadCodecs: [createPayloadCodec(settings)],
    ...(settings.PAYLOAD_ENCRYPTION && { failureConverterPath }),
  };
}

/** Where the SDK finds the converter of failures. */
export const failureConverterPath = fileURLToPath(new URL('failure-converter.ts', import.meta.url));

/**
 * The word in the address of the codec endpoint that a web UI asks, which can send no key of its own:
 * derived from the admin key, good for opening payloads and nothing else.
 */
export function codecAccessWord(adminKey: string): string {
  return createHmac('sha256', adminKey).update('temporal-codec-read').digest('base64url');
}

function textOf(payload: Payload, field: string): string {
  return Buffer.from(payload.metadata?.[field] ?? new Uint8Array()).toString();
}

function seal(payload: Payload, { id, secret }: PayloadKey): Payload {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', secret, nonce);
  const message = payloadMessage.encode(payload).finish();
  const sealed = [nonce, cipher.update(message), cipher.final(), cipher.getAuthTag()];
  return {
    metadata: { encoding: Buffer.from(sealedEncoding), [keyIdField]: Buffer.from(id) },
    data: Buffer.concat(sealed),
  };
}

function unseal(data: Uint8Array, secret: Buffer): Payload {
  try {
    const decipher = createDecipheriv('aes-256-gcm', secret, data.subarray(0, nonceBytes), {
      authTagLength: tagBytes,
    });
    decipher.setAuthTag(data.subarray(-tagBytes));
    const sealed = data.subarray(nonceBytes, -tagBytes);
    const message = Buffer.concat([decipher.update(sealed), decipher.final()]);
    const { metadata, data: bytes } = payloadMessage.decode(message);
    return { metadata, data: bytes };
  } catch (cause) {
    throw new PayloadUnreadableError('the payload is not what was sealed', { cause });
  }
}
