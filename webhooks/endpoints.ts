/**
 * Webhook endpoints: addresses of an organization that receive the chosen events of requests without
 * a URL of their own (webhooks/addresses.sql). Each has its own secret (webhooks/signing-secrets.ts).
 * Their webhooks are delivered like all others, and each attempt changes the health of its endpoint.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { bulkEvents } from '../domain/bulk-contract.ts';
import { GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { endEvents, webhookEvents } from '../domain/job-contract.ts';
import { keysOf } from '../domain/json.ts';
import { command } from '../platform/database.ts';
import { noticeData } from './notices.ts';

/** Type of an event that an endpoint can receive. Generated Java compiles only if it has a name. */
export const endpointEvent = z
  .enum([
    ...webhookEvents.map((event) => `studio.job.${event}` as const),
    ...endEvents.map((event) => `chat.${event}` as const),
    ...bulkEvents.map((event) => `studio.bulk.${event}` as const),
    ...keysOf(noticeData),
  ])
  .meta({ id: 'EventType' });

/** Maximum number of endpoints of an organization. */
export const endpointsMax = 20;

/** Schema of an endpoint; times are in Unix milliseconds. */
export const webhookEndpoint = z.object({
  endpointId: z.string(),
  url: z.string(),
  events: z.array(endpointEvent),
  description: z.string(),
  paused: z.boolean(),
  delivered: z.int().meta({ description: 'Number of webhooks that were delivered.' }),
  failed: z.int().meta({ description: 'Number of delivery attempts that failed.' }),
  lastStatus: z.int().nullable().meta({ description: 'Status of the last attempt.' }),
  lastError: z.string().nullable().meta({
    description: 'Reason why the last attempt has no status, or target of its redirect.',
  }),
  lastDeliveredAtMs: z.number().nullable(),
  /** Time of the first attempt that failed after the last delivery; null if none has. */
  failingSinceMs: z.number().nullable(),
  createdAtMs: z.number(),
  updatedAtMs: z.number(),
});
export type WebhookEndpoint = z.infer<typeof webhookEndpoint>;

/** Fields of an endpoint that its owner sets. */
export type EndpointSettings = Pick<WebhookEndpoint, 'url' | 'events' | 'description' | 'paused'>;

/** Changes of settings; undefined leaves a setting as it is. */
type SettingChanges = { [Name in keyof EndpointSettings]?: EndpointSettings[Name] | undefined };

/** Identifies an endpoint. */
export interface EndpointIds {
  organizationId: string;
  endpointId: string;
}

const columns = sql.fragment`id AS "endpointId", url, events, description, paused, delivered, failed,
  last_status AS "lastStatus", last_error AS "lastError", last_delivered_at AS "lastDeliveredAtMs",
  failing_since AS "failingSinceMs", created_at AS "createdAtMs", updated_at AS "updatedAtMs"`;
const owned = ({ organizationId, endpointId }: EndpointIds) =>
  sql.fragment`id = ${endpointId} AND organization_id = ${organizationId}`;
const countRow = z.object({ count: z.int() });

/** Creates the functions that manage endpoints. `connection` is a pool or an open transaction. */
export function createWebhookEndpoints(connection: CommonQueryMethods) {
  return {
    /** Lists the endpoints of an organization, newest first. */
    list: (organizationId: string): Promise<readonly WebhookEndpoint[]> =>
      connection.any(sql.type(webhookEndpoint)`SELECT ${columns} FROM webhook_endpoint
        WHERE organization_id = ${organizationId} ORDER BY id DESC`),
    /** @throws GatewayError NOT_FOUND if the organization has no such endpoint */
    read: async (ids: EndpointIds): Promise<WebhookEndpoint> =>
      requireEndpoint(
        await connection.maybeOne(sql.type(webhookEndpoint)`
          SELECT ${columns} FROM webhook_endpoint WHERE ${owned(ids)}`),
      ),
    /**
     * Creates an endpoint within a transaction.
     * @throws GatewayError WEBHOOK_ENDPOINT_QUOTA_REACHED
     */
    async create(organizationId: string, settings: EndpointSettings): Promise<WebhookEndpoint> {
      const { url, events, description, paused } = settings;
      await connection.query(
        command`SELECT FROM organization WHERE id = ${organizationId} FOR NO KEY UPDATE`,
      );
      const count = await connection.oneFirst(sql.type(countRow)`
        SELECT count(*) FROM webhook_endpoint WHERE organization_id = ${organizationId}`);
      if (count >= endpointsMax) throw new GatewayError('WEBHOOK_ENDPOINT_QUOTA_REACHED');
      return connection.one(sql.type(webhookEndpoint)`
        INSERT INTO webhook_endpoint (id, organization_id, url, events, description, paused)
        VALUES (${newId('webhookEndpoint')}, ${organizationId}, ${url}, ${sql.array(events, 'text')},
          ${description}, ${paused}) RETURNING ${columns}`);
    },
    /** Changes the given settings. @throws GatewayError NOT_FOUND */
    async update(ids: EndpointIds, changes: SettingChanges): Promise<WebhookEndpoint> {
      const { url = null, events, description = null, paused = null } = changes;
      const newEvents = events ? sql.array(events, 'text') : sql.fragment`NULL`;
      return requireEndpoint(
        await connection.maybeOne(sql.type(webhookEndpoint)`
          UPDATE webhook_endpoint SET url = coalesce(${url}, url), events = coalesce(${newEvents}, events),
            description = coalesce(${description}, description),
            paused = coalesce(${paused}, paused), updated_at = clock_timestamp()
          WHERE ${owned(ids)} RETURNING ${columns}`),
      );
    },
    /**
     * Deletes an endpoint. Its webhooks stay in the lists, and those that were not delivered are no
     * longer sent. @throws GatewayError NOT_FOUND
     */
    async remove(ids: EndpointIds): Promise<void> {
      requireEndpoint(
        await connection.maybeOne(sql.type(webhookEndpoint)`
          WITH stopped AS (
            UPDATE webhook SET state = 'failed', next_attempt_at = NULL, overdue_at = NULL,
              updated_at = clock_timestamp()
            WHERE endpoint_id = ${ids.endpointId} AND organization_id = ${ids.organizationId}
              AND state IN ('waiting', 'delivering') RETURNING 1)
          -- The webhooks are locked before their endpoint, as at the end of an attempt.
          DELETE FROM webhook_endpoint WHERE ${owned(ids)} AND (SELECT count(*) FROM stopped) >= 0
          RETURNING ${columns}`),
      );
    },
  };
}
export type WebhookEndpoints = ReturnType<typeof createWebhookEndpoints>;

function requireEndpoint(endpoint: WebhookEndpoint | null): WebhookEndpoint {
  if (!endpoint) throw new GatewayError('NOT_FOUND', 'No such webhook endpoint.');
  return endpoint;
}
