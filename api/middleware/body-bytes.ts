/**
 * Bytes of request bodies that are in flight: read, or on their way, and not answered yet. What they come
 * to in memory is a few times as much, so they are bounded for this process and for each key.
 */
import { GatewayError } from '../../domain/errors.ts';
import type { Middleware } from '../context.ts';

interface BodyBytesLimits {
  /** Bytes. */
  processMax: number;
  /** Bytes of one key. */
  keyMax: number;
}

/** What the body of one request holds of the limits, until the request is answered. */
export interface BodyBytes {
  /**
   * Holds that many more bytes.
   * @throws GatewayError 429 when the key, 503 when the process has too many in flight
   */
  hold: (bytes: number) => void;
}

/** Bodies come and go within seconds. */
const retryAfterSeconds = 1;

/** Gives every request its part of the limits, and takes it back once it is answered. */
export function limitBodyBytes({ processMax, keyMax }: BodyBytesLimits): Middleware {
  const ofKeys = new Map<string, number>();
  let ofProcess = 0;

  function add(keyId: string | undefined, bytes: number): void {
    ofProcess += bytes;
    if (keyId === undefined) return;
    const ofKey = (ofKeys.get(keyId) ?? 0) + bytes;
    if (ofKey === 0) ofKeys.delete(keyId);
    else ofKeys.set(keyId, ofKey);
  }

  return async (ctx, next) => {
    let held = 0;
    let keyId: string | undefined;
    ctx.state.bodyBytes = {
      hold(bytes) {
        // Nobody has a key where something else than a key lets in.
        keyId = ctx.state.caller?.keyId;
        if (keyId !== undefined && (ofKeys.get(keyId) ?? 0) + bytes > keyMax) {
          const message = 'Too many bytes of this key are in flight.';
          throw new GatewayError('Rate limit exceeded. Please slow down.', message, {
            retryAfterSeconds,
          });
        }
        if (ofProcess + bytes > processMax) {
          const message = 'Too many bytes of requests are in flight.';
          throw new GatewayError('SERVICE_UNAVAILABLE', message, { retryAfterSeconds });
        }
        add(keyId, bytes);
        held += bytes;
      },
    };
    try {
      await next();
    } finally {
      if (held > 0) add(keyId, -held);
    }
  };
}
