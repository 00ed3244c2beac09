/** Ed25519 key that signs fal's webhooks. The key is stored, so that it stays the same across restarts. */
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

/** Signing key with its public JWKS. */
export interface SigningKey {
  jwks: { keys: object[] };
  /** Signs a delivery; returns the signature in hex. */
  sign: (delivery: SignedDelivery) => string;
}

/** Parts of a delivery that are signed. */
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

/** Builds the message that fal signs: four lines, of which the last is the SHA-256 of the raw body. */
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

/** Reads the key from a file, or generates it and writes the file. */
export function loadSigningKey(path: string): SigningKey {
  return fromPrivateKey(readKey(path) ?? makeKey(path));
}

/** Generates a key that is not in the JWKS, for forged deliveries. */
export function createStrangerKey(): SigningKey {
  return fromPrivateKey(generateKeyPairSync('ed25519').privateKey);
}
