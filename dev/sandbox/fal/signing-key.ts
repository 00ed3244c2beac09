/** Ed25519 key that signs fal's webhooks, kept across restarts, and its public JWKS. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  type KeyObject,
} from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Signs webhooks and publishes the key that verifies them. */
export interface SigningKey {
  jwks: { keys: object[] };
  /** Returns the signature of a delivery in hex. */
  sign: (delivery: SignedDelivery) => string;
}

/** Parts of a delivery that the signature covers. */
interface SignedDelivery {
  requestId: string;
  userId: string;
  timestampSeconds: number;
  rawBody: string;
}

function readKey(path: string): KeyObject | undefined {
  try {
    return createPrivateKey(readFileSync(path, 'utf8'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function makeKey(path: string): KeyObject {
  const { privateKey } = generateKeyPairSync('ed25519');
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  return privateKey;
}

/** Returns the message that fal signs: four lines, the last one is the SHA-256 of the raw body. */
function signedMessage({ requestId, userId, timestampSeconds, rawBody }: SignedDelivery): Buffer {
  const bodyHash = createHash('sha256').update(rawBody).digest('hex');
  return Buffer.from([requestId, userId, String(timestampSeconds), bodyHash].join('\n'));
}

function fromPrivateKey(privateKey: KeyObject): SigningKey {
  const { kty, crv, x } = createPublicKey(privateKey).export({ format: 'jwk' });
  return {
    jwks: {
      keys: [
        {
          kty,
          crv,
          x,
          kid: createHash('sha256')
            .update(x ?? '')
            .digest('hex')
            .slice(0, 16),
        },
      ],
    },
    sign: (delivery) => sign(null, signedMessage(delivery), privateKey).toString('hex'),
  };
}

/** Returns the key of this file, which is generated at the first call. */
export function loadSigningKey(path: string): SigningKey {
  return fromPrivateKey(readKey(path) ?? makeKey(path));
}

/** Generates a key that is not published, for forged deliveries. */
export function createStrangerKey(): SigningKey {
  return fromPrivateKey(generateKeyPairSync('ed25519').privateKey);
}
