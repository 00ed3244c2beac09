/**
 * The secrets that sign webhooks: derived from one secret of the configuration, the organization and a
 * generation, so that none is stored. A replaced one signs beside its successor for an overlap.
 */
import { createHmac } from 'node:crypto';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { command } from '../platform/database.ts';

/** A secret that signs now; times are Unix ms. */
export interface SigningSecret {
  generation: number;
  /** As Standard Webhooks writes it: `whsec_` and base64. */
  secret: string;
  /** When it stops signing; null for the one in use. */
  retiresAtMs: number | null;
}

/** More signatures than these would only make headers long. */
const liveMax = 5;

const row = z.object({ generation: z.number(), retires_at: z.number().nullable() });

/** Secrets over a pool or an open transaction; `master` has at least 32 random characters. */
export function createSigningSecrets(connection: CommonQueryMethods, master: string) {
  const secretOf = (organizationId: string, generation: number): string =>
    `whsec_${createHmac('sha256', master)
      .update(`caller-webhook\n${organizationId}\n${generation}`)
      .digest('base64')}`;
  return {
    /** Those that sign now, the one in use first. */
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
    /** Puts a new one into use; those before it sign for `overlapMs` still, the last four of them. */
    async rotate(organizationId: string, overlapMs: number): Promise<void> {
      await connection.query(command`
        SELECT rotate_webhook_secret(${organizationId}, ${overlapMs} * interval '1 millisecond',
          ${liveMax})`);
    },
  };
}
export type SigningSecrets = ReturnType<typeof createSigningSecrets>;
