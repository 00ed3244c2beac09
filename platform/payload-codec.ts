/**
 * Encrypts Temporal payloads. If keys are configured, every payload (inputs, results, signals,
 * memos, failure messages) is encrypted with AES-256-GCM before it leaves the process. The format
 * is that of Temporal's samples, so that their codec servers can read it: `encoding` is
 * `binary/encrypted`, `encryption-key-id` identifies the key, and the data consists of the nonce,
 * the encrypted payload (protobuf) and the authentication tag.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { DataConverter, Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';

/** Key for AES-256-GCM. Payloads contain the id of the key that encrypted them. */
export interface PayloadKey {
  id: string;
  secret: Buffer;
}

/** Settings of payload encryption (platform/config.ts). */
export interface PayloadSettings {
  /** Payload keys. The first key encrypts new payloads; all keys can decrypt. */
  PAYLOAD_KEYS: readonly PayloadKey[];
  /** True if new payloads are encrypted. If false, the keys only decrypt existing payloads. */
  PAYLOAD_ENCRYPTION: boolean;
}

export const encryptedEncoding = 'binary/encrypted';
const keyIdField = 'encryption-key-id';
const nonceBytes = 12;
const tagBytes = 16;
const keyBytes = 32;

const { Payload: payloadMessage } = proto.temporal.api.common.v1;

/**
 * Parses payload keys in the format `id:key,id:key`. A key has 32 bytes, encoded in Base64 or
 * Base64url.
 * @throws Error that describes the mistake but contains no key
 */
export function readPayloadKeys(text: string): PayloadKey[] {
  const keys = text.split(',').map((entry) => {
    const [id = '', base64 = '', ...rest] = entry.trim().split(':');
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(id) || rest.length > 0) {
      throw new Error('must be pairs id:key, separated by commas');
    }
    const secret = Buffer.from(base64, 'base64url');
    if (!/^[\w+/=-]*$/.test(base64) || secret.length !== keyBytes) {
      throw new Error(`must contain keys of ${keyBytes} bytes in Base64`);
    }
    if (new Set(secret).size < 16) throw new Error('must contain random keys');
    return { id, secret };
  });
  if (new Set(keys.map(({ id }) => id)).size < keys.length) {
    throw new Error('must have a unique id for each key');
  }
  return keys;
}

/** Error for an undecryptable payload: its key is not configured, or its data was changed. */
export class PayloadUnreadableError extends Error {
  override readonly name = 'PayloadUnreadableError';
}

/**
 * Creates the codec that encrypts and decrypts payloads. Unencrypted payloads are returned
 * unchanged, so encryption can be switched on and off at any time.
 */
export function createPayloadCodec(settings: PayloadSettings): PayloadCodec {
  const keys = new Map(settings.PAYLOAD_KEYS.map((key) => [key.id, key.secret]));
  const [newest] = settings.PAYLOAD_ENCRYPTION ? settings.PAYLOAD_KEYS : [];
  const decodePayload = (payload: Payload): Payload => {
    if (readMetadata(payload, 'encoding') !== encryptedEncoding) return payload;
    const keyId = readMetadata(payload, keyIdField);
    const secret = keys.get(keyId);
    if (!secret) {
      throw new PayloadUnreadableError(
        `the payload key ${JSON.stringify(keyId)} is not configured`,
      );
    }
    return decrypt(payload.data ?? new Uint8Array(), secret);
  };
  return {
    encode: (payloads) =>
      Promise.resolve(newest ? payloads.map((payload) => encrypt(payload, newest)) : payloads),
    // The function is async, because the SDK handles rejected promises but not synchronous errors.
    decode: async (payloads) => payloads.map(decodePayload),
  };
}

/** Creates the data converter of clients and workers. */
export function createDataConverter(settings: PayloadSettings): DataConverter {
  if (settings.PAYLOAD_KEYS.length === 0) return {};
  return {
    payloadCodecs: [createPayloadCodec(settings)],
    ...(settings.PAYLOAD_ENCRYPTION && { failureConverterPath }),
  };
}

/** Path from which the SDK loads the failure converter. */
export const failureConverterPath = fileURLToPath(new URL('failure-converter.ts', import.meta.url));

/**
 * Returns the path segment that authorizes Temporal's web UI at the codec endpoint. The web UI
 * cannot send an API key. The segment is derived from the admin key and permits only decryption.
 */
export function codecAccessToken(adminKey: string): string {
  return createHmac('sha256', adminKey).update('temporal-codec-read').digest('base64url');
}

/** Returns a metadata field of a payload as text; an empty string if it is missing. */
function readMetadata(payload: Payload, field: string): string {
  return Buffer.from(payload.metadata?.[field] ?? new Uint8Array()).toString();
}

function encrypt(payload: Payload, { id, secret }: PayloadKey): Payload {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', secret, nonce);
  const message = payloadMessage.encode(payload).finish();
  const ciphertext = [nonce, cipher.update(message), cipher.final(), cipher.getAuthTag()];
  return {
    metadata: { encoding: Buffer.from(encryptedEncoding), [keyIdField]: Buffer.from(id) },
    data: Buffer.concat(ciphertext),
  };
}

function decrypt(data: Uint8Array, secret: Buffer): Payload {
  try {
    const decipher = createDecipheriv('aes-256-gcm', secret, data.subarray(0, nonceBytes), {
      authTagLength: tagBytes,
    });
    decipher.setAuthTag(data.subarray(-tagBytes));
    const ciphertext = data.subarray(nonceBytes, -tagBytes);
    const message = Buffer.concat([decipher.update(ciphertext), decipher.final()]);
    const { metadata, data: bytes } = payloadMessage.decode(message);
    return { metadata, data: bytes };
  } catch (cause) {
    throw new PayloadUnreadableError(
      'the payload cannot be decrypted: the key is wrong, or the data was changed',
      { cause },
    );
  }
}
