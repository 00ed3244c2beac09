/**
 * GET /api/v1/usage/events, and the same for operators: the charges, releases, refunds and grants of an
 * organization, each once and in a fixed order, as JSON or NDJSON.
 */
import { z } from 'zod';
import { endUserShown, splitEndUser } from '../../domain/end-users.ts';
import { fixedUnits } from '../../domain/book-price.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { formatJsonLine } from '../../domain/event-lines.ts';
import { isoTime } from '../../domain/json.ts';
import { readOrganization } from '../../identity/organizations.ts';
import type { UsageEvent } from '../../ledger/usage-events.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { idField, listSchema, pageLimit, pageSchema, pathId, time, toPage } from './fields.ts';

const number = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const query = z.strictObject({
  after: number.default(0).meta({
    description: '`number` of the last event that you have; 0 reads from the start.',
  }),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  format: z
    .enum(['json', 'ndjson'])
    .optional()
    .meta({ description: 'Format of the response; overrides the Accept header.' }),
});

const eventSchema = z
  .object({
    id: z.string().meta({ description: 'Unique id of the event, and of its ledger entry.' }),
    organizationId: z.string(),
    number: z.int().meta({
      description:
        'Number of the ledger entry of the organization. Later events have higher numbers; the entries of reservations are left out.',
    }),
    kind: z.enum(['charge', 'release', 'refund', 'grant']),
    createdAt: time.meta({ description: 'Time of the charge, release, refund or grant.' }),
    startedAt: time.nullable().meta({ description: 'Time at which the job or chat began.' }),
    type: z.string().nullable().meta({ description: '`chat`, or the type of the Studio job.' }),
    model: z.string().nullable(),
    quantity: z.number().nullable().meta({
      description: 'Charged units; null if the units differ, and if nothing was charged.',
    }),
    unit: z.enum([...fixedUnits, 'token']).nullable(),
    units: z.array(
      z.object({ unit: z.enum(fixedUnits), quantity: z.number() }).meta({ id: 'DeliveredUnits' }),
    ),
    inputTokens: z.int().optional(),
    outputTokens: z.int().optional(),
    cachedInputTokens: z.int().optional(),
    cacheWriteTokens: z.int().optional(),
    reasoningTokens: z.int().optional(),
    credits: z.number().meta({
      description:
        'Credits charged; of a refund the negative amount, of a release 0. Of a grant the credits added, of a take-back the negative amount.',
    }),
    priceRows: z.array(z.string()).meta({
      description: 'Rows of the price book that set the price; empty if the catalog did.',
    }),
    keyId: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    endUser: endUserShown,
    jobId: z.string().nullable(),
    chatId: z.string().nullable(),
    requestId: z.string().nullable(),
  })
  .meta({ id: 'UsageEvent' });

function formatEvent(organizationId: string, event: UsageEvent): z.infer<typeof eventSchema> {
  const { kind, inputTokens, outputTokens, subjectId } = event;
  const units = event.units ?? [];
  const [first] = units.length === 1 ? units : [];
  const isTokens = kind === 'charge' && inputTokens !== null;
  const { cachedInputTokens, cacheWriteTokens, reasoningTokens } = event;
  const isGrant = kind === 'grant';
  // A change of 0 must not become -0.
  const credits = creditsFromMicro(isGrant ? event.postedChangeMicro : 0 - event.postedChangeMicro);
  return {
    id: `${organizationId}:${event.number}`,
    organizationId,
    number: event.number,
    kind,
    createdAt: isoTime(event.createdAtMs),
    startedAt: isoTime(event.startedAtMs),
    type: event.type,
    model: event.model,
    quantity: isTokens ? inputTokens + (outputTokens ?? 0) : (first?.quantity ?? null),
    unit: isTokens ? 'token' : (first?.unit ?? null),
    units,
    ...(isTokens && { inputTokens, outputTokens: outputTokens ?? 0 }),
    ...(cachedInputTokens && { cachedInputTokens }),
    ...(cacheWriteTokens && { cacheWriteTokens }),
    ...(reasoningTokens && { reasoningTokens }),
    credits,
    priceRows: event.priceRows ?? [],
    keyId: event.keyId,
    ...splitEndUser(event.metadata),
    jobId: subjectId?.startsWith('job_') ? subjectId : null,
    chatId: subjectId?.startsWith('chat_') ? subjectId : null,
    requestId: event.requestId,
  };
}

const response = listSchema(eventSchema).extend({
  hasMore: z.boolean(),
  nextAfter: z.int().meta({ description: '`after` of the next request.' }),
});

/** Sends the events behind a number, in the requested format. */
async function sendEvents(
  ctx: Context,
  { organizationId, after, limit, format }: z.infer<typeof query> & { organizationId: string },
  { usageEvents }: Pick<Composition, 'usageEvents'>,
): Promise<z.infer<typeof response> | undefined> {
  const read = await usageEvents.read(organizationId, { after, limit: limit + 1 });
  const events = read.slice(0, limit).map((event) => formatEvent(organizationId, event));
  ctx.vary('Accept');
  const isLines =
    format === undefined
      ? ctx.accepts('application/json', 'application/x-ndjson') === 'application/x-ndjson'
      : format === 'ndjson';
  if (isLines) {
    ctx.type = 'application/x-ndjson';
    ctx.body = events.map((event) => `${formatJsonLine(event)}\n`).join('');
    return undefined;
  }
  return {
    success: true,
    data: events,
    hasMore: read.length > limit,
    nextAfter: events.at(-1)?.number ?? after,
  };
}

const described = {
  response: z.unknown(),
  responses: {
    200: {
      description: 'The events, oldest first; with `format=ndjson`, one in each line.',
      schema: response,
      textTypes: ['application/x-ndjson'],
    },
  },
};

const callerEvents = defineSection('Usage', {
  listUsageEvents: defineEndpoint({
    route: 'GET /api/v1/usage/events',
    scope: 'usage:read',
    bucket: 'polls',
    summary: 'List charges, releases, refunds and grants in a fixed order, for your own billing',
    description:
      'Send the `number` of the last event that you have as `after`. An event never changes, so it can be read again, until it is archived.',
    request: { query },
    ...described,
    errors: ['USAGE_ARCHIVED'],
    handle: ({ ctx, caller: { organizationId }, query: page }, services) =>
      sendEvents(ctx, { ...page, organizationId }, services),
  }),
});

const operatorEvents = defineSection('Credits', {
  listOrganizationEvents: defineEndpoint({
    route: 'GET /api/admin/v1/organizations/:organizationId/usage-events',
    summary: 'List the usage events of an organization',
    request: { params: z.object({ organizationId: pathId('organization') }), query },
    ...described,
    errors: ['NOT_FOUND', 'USAGE_ARCHIVED'],
    async handle({ ctx, params: { organizationId }, query: page }, services) {
      await readOrganization(services.pool, organizationId);
      return sendEvents(ctx, { ...page, organizationId }, services);
    },
  }),

  listUsagePositions: defineEndpoint({
    route: 'GET /api/admin/v1/usage-positions',
    summary: 'List the number of the last ledger entry of each organization',
    description:
      'An organization has new events only if its number is higher than the last one that you read.',
    request: {
      query: z.strictObject({ limit: pageLimit, cursor: idField('organization').optional() }),
    },
    response: pageSchema(z.object({ organizationId: z.string(), lastNumber: z.int() })),
    async handle({ query: { limit, cursor = '' } }, { usageEvents }) {
      const rows = await usageEvents.positions(cursor, limit + 1);
      return toPage(rows, { limit, cursor: 'organizationId', show: (row) => row });
    },
  }),
});

/** Endpoints of the usage feed. */
export const usageFeed = [...callerEvents, ...operatorEvents];
