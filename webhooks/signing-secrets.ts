/**
 * Secrets that sign webhooks. They are derived from one configured secret, their owner and a
 * generation number, so that no secret is stored. The owner is an organization or a webhook
 * endpoint. For some time after a rotation, webhooks are signed with both the old and the new
 * secrets.
 */
import { createHmac } from 'node:crypto';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { isId } from '../domain/ids.ts';
import { command } from '../platform/database.ts';

/** Secret that currently signs webhooks; `retiresAtMs` is in Unix milliseconds. */
export interface SigningSecret {
  generation: number;
  /** Secret in the format of Standard Webhooks: `whsec_` and base64. */
  secret: string;
  /** Time at which the secret stops signing; null for the newest secret. */
  retiresAtMs: number | null;
}

/**
 * Maximum number of secrets that sign at the same time. Each secret adds a signature to the header.
 */
const activeMax = 5;

const row = z.object({ generation: z.number(), retires_at: z.number().nullable() });

/**
 * Creates the functions that read and rotate signing secrets. `connection` is a pool or an open
 * transaction; `masterSecret` is the configured secret, which has at least 32 random characters.
 */
export function createSigningSecrets(connection: CommonQueryMethods, masterSecret: string) {
  const deriveSecret = (ownerId: string, generation: number): string =>
    `whsec_${createHmac('sha256', masterSecret)
      .update(`caller-webhook\n${ownerId}\n${generation}`)
      .digest('base64')}`;
  return {
    /** Returns the secrets with which webhooks are currently signed, newest first. */
    async listActive(ownerId: string): Promise<SigningSecret[]> {
      const rows = await connection.any(sql.type(row)`
        SELECT * FROM (
          SELECT generation, retires_at FROM webhook_secret WHERE organization_id = ${ownerId}
          UNION ALL SELECT s.* FROM webhook_endpoint e,
            jsonb_to_recordset(e.secrets) AS s (generation integer, retires_at timestamptz)
          WHERE e.id = ${ownerId}) AS secret
        WHERE retires_at IS NULL OR retires_at > clock_timestamp()
        ORDER BY generation DESC`);
      const generations = rows.length > 0 ? rows : [{ generation: 1, retires_at: null }];
      return generations.map(({ generation, retires_at }) => ({
        generation,
        secret: deriveSecret(ownerId, generation),
        retiresAtMs: retires_at,
      }));
    },
    /**
     * Creates a new secret. The four previous secrets continue to sign for at most `overlapMs`
     * milliseconds.
     */
    async rotate(ownerId: string, overlapMs: number): Promise<void> {
      const rotate = isId('webhookEndpoint', ownerId)
        ? sql.fragment`rotate_endpoint_secret`
        : sql.fragment`rotate_webhook_secret`;
      await connection.query(command`
        SELECT ${rotate}(${ownerId}, ${overlapMs} * interval '1 millisecond', ${activeMax})`);
    },
  };
}
export type SigningSecrets = ReturnType<typeof createSigningSecrets>;
