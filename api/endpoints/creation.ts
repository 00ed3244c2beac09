/**
 * Declares endpoints that create something in one transaction, once per Idempotency-Key. A repeated
 * request gets the first answer, also the secret of a new key, because the first answer may have
 * been lost. The claim therefore holds the answer, encrypted with a key that is derived from
 * KEY_PEPPER, until the sweeper deletes it.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { claimCondition, claimKey, type KeyedRequest } from '../../ledger/claims.ts';
import type { Config } from '../../platform/config.ts';
import { command } from '../../platform/database.ts';
import type { Composition } from '../composition.ts';
import { idempotencyHeader, parseIdempotencyKey } from '../http/request-headers.ts';
import type { RequestParts } from './description.ts';
import {
  defineEndpoint,
  type Endpoint,
  type EndpointCall,
  type EndpointDefinition,
} from './endpoint.ts';

interface CreationDefinition<Parts extends RequestParts, Answer> extends Omit<
  EndpointDefinition<Parts, Answer>,
  'handle' | 'responses'
> {
  /** Description of the answer. */
  created: string;
  /** Creates the object with the connection of the transaction. */
  create: (
    call: EndpointCall<Parts>,
    services: Composition,
    connection: CommonQueryMethods,
  ) => NoInfer<Answer> | Promise<NoInfer<Answer>>;
}

type PepperConfig = Pick<Config, 'KEY_PEPPER' | 'KEY_PEPPER_PREVIOUS'>;

/** Declares an endpoint that creates something, once per Idempotency-Key. */
export function defineCreation<Parts extends RequestParts, Answer>(
  definition: CreationDefinition<Parts, Answer>,
): Endpoint {
  const { created, create, request, errors = [], ...rest } = definition;
  const headers = z.object({ 'Idempotent-Replayed': z.literal('true').optional() });
  // oxlint-disable-next-line no-unsafe-type-assertion -- `handle` ignores the parsed headers
  const parts = { ...request, headers: idempotencyHeader } as unknown as Parts;
  return defineEndpoint<Parts, Answer>({
    ...rest,
    request: parts,
    responses: { 200: { description: created, headers } },
    errors: [...errors, 'ANSWER_NOT_KEPT'],
    async handle(call, services) {
      const { ctx } = call;
      // The answer may contain a secret.
      ctx.set('Cache-Control', 'no-store');
      const { pool, config } = services;
      const keyed = keyedRequest(call);
      return pool.transaction(async (connection): Promise<NoInfer<Answer>> => {
        const claimed = keyed && (await claimKey(connection, keyed));
        if (claimed?.state === 'done') {
          const sealed = claimed.response && (await buffer(claimed.response.stream));
          ctx.set('Idempotent-Replayed', 'true');
          return definition.response.parse(unseal(config, sealed));
        }
        const answer = await create(call, services, connection);
        if (claimed) {
          const sealed = seal(config.KEY_PEPPER, JSON.stringify(answer));
          await connection.query(command`UPDATE idempotency_claim
            SET state = 'done', answer = ${sql.binary(sealed)}, answer_headers = '{}'
            WHERE ${claimCondition(claimed.claim)}`);
        }
        return answer;
      });
    },
  });
}

/**
 * Returns the request for its claim, or null if it has no Idempotency-Key. Claims belong to an
 * organization or to an operator. The acting key is a part of the request, so that no other key
 * gets its answer.
 */
function keyedRequest({ ctx, ...call }: EndpointCall): KeyedRequest | null {
  const idempotencyKey = parseIdempotencyKey(ctx);
  if (idempotencyKey === null) return null;
  // Only one of the two is set, depending on the scope of the endpoint.
  const { caller, operator }: Partial<typeof call> = call;
  const organizationId = caller?.organizationId ?? `operator:${operator?.operatorId ?? 'admin'}`;
  const body = { keyId: caller?.keyId, body: call.body };
  return { organizationId, idempotencyKey, path: ctx.path, body, subjectId: randomUUID() };
}

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

const deriveKey = (pepper: string): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', pepper, '', 'answers of repeatable creations', 32));

/** Encrypts an answer: nonce, ciphertext, authentication tag. */
function seal(pepper: string, answer: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, deriveKey(pepper), nonce);
  return Buffer.concat([nonce, cipher.update(answer), cipher.final(), cipher.getAuthTag()]);
}

/**
 * Decrypts an answer with the pepper, or with the previous one while peppers are rotated.
 * @throws GatewayError ANSWER_NOT_KEPT if neither fits
 */
function unseal(config: PepperConfig, sealed: Buffer | null): unknown {
  const { KEY_PEPPER: pepper, KEY_PEPPER_PREVIOUS: previous } = config;
  for (const one of [pepper, previous]) {
    if (sealed === null || one === undefined) continue;
    try {
      const nonce = sealed.subarray(0, nonceBytes);
      const decipher = createDecipheriv(algorithm, deriveKey(one), nonce, {
        authTagLength: tagBytes,
      });
      decipher.setAuthTag(sealed.subarray(-tagBytes));
      const parts = [decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()];
      return JSON.parse(Buffer.concat(parts).toString());
    } catch {
      // Sealed with the other pepper.
    }
  }
  throw new GatewayError('ANSWER_NOT_KEPT');
}
