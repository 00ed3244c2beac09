/**
 * Secrets that sign webhooks. Each is derived from one configured secret, the organization and a
 * generation, so that none is stored. A replaced secret signs in addition to its successor for an
 * overlap.
 */
import { createHmac } from 'node:crypto';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { command } from '../platform/database.ts';

/** An active secret; times are Unix ms. */
export interface SigningSecret {
  generation: number;
  /** Secret in the format of Standard Webhooks: `whsec_` and base64. */
  secret: string;
  /** Time at which the secret expires; null for the newest one. */
  retiresAtMs: number | null;
}

/** Limit of active secrets, because each adds a signature to the headers. */
const liveMax = 5;

const row = z.object({ generation: z.number(), retires_at: z.number().nullable() });

/** Makes secrets over a pool or an open transaction; `master` has at least 32 random characters. */
export function createSigningSecrets(connection: CommonQueryMethods, master: string) {
  const secretOf = (organizationId: string, generation: number): string =>
    `whsec_${createHmac('sha256', master)
      .update(`caller-webhook\n${organizationId}\n${generation}`)
      .digest('base64')}`;
  return {
    /** Lists the active secrets, newest first. */
    async live(organizationId: string): Promise<SigningSecret[]> {
      const rows = await connection.any(sql.type(row)`
        SELECT generation, retires_at FROM webhook_secret
        WHERE organization_id = ${organizationId}
          AND (retires_at IS NULL OR retires_at > clock_timestamp())
        ORDER BY generation DESC`);
      const generations = rows.length > 0 ? rows : [{ generation: 1, retires_at: null }];
      return generations.map(({ generation, retires_at }) => ({
        generation,
        secret: secretOf(organizationId, generation),
        retiresAtMs: retires_at,
      }));
    },
    /** Makes a new secret. Earlier ones stay active for `overlapMs`, at most the last four. */
    async rotate(organizationId: string, overlapMs: number): Promise<void> {
      await connection.query(command`
        SELECT rotate_webhook_secret(${organizationId}, ${overlapMs} * interval '1 millisecond',
          ${liveMax})`);
    },
  };
}
export type SigningSecrets = ReturnType<typeof createSigningSecrets>;
