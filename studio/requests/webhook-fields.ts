/**
 * Parses the fields `webhookUrl` and `webhookEvents` of a Studio request, and stores the webhooks of
 * its job. All capabilities share the fields, so they are removed before the capability's schema
 * parses the request.
 */
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import { z } from 'zod';
import {
  readSubjectId,
  webhookEvents as names,
  webhookTaskQueue,
} from '../../domain/job-contract.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import type { RequestedWebhook, Webhooks } from '../../webhooks/webhooks.ts';
import { parseWith } from '../../domain/parsing.ts';

/** Maximum length of a webhook URL in characters. */
export const webhookUrlLengthMax = 2048;

/**
 * Parses a webhook URL. Returns null if the request has none. The host name is resolved only when a
 * webhook is sent.
 * @throws GatewayError INVALID_REQUEST naming `field`
 */
export function parseWebhookUrl(
  input: unknown,
  outbound: Outbound,
  field = 'webhookUrl',
): string | null {
  const createError = (message: string): GatewayError =>
    fieldError('INVALID_REQUEST', field, message);
  if (input === undefined) return null;
  if (typeof input !== 'string') throw createError('must be a URL');
  if (input.length > webhookUrlLengthMax) {
    throw createError(`must have at most ${webhookUrlLengthMax} characters`);
  }
  try {
    return outbound.check(input).href;
  } catch (error) {
    if (error instanceof OutboundError) throw createError(error.message);
    throw error;
  }
}

const webhookEvents = z
  .array(z.enum(names))
  .min(1)
  .max(names.length)
  .refine((events) => new Set(events).size === events.length, 'must not repeat an event')
  .optional();
const eventsSchema = z.object({ webhookEvents });

/** Webhook fields in the schema of every Studio request. */
export const webhookFields = {
  webhookUrl: z
    .url({ protocol: /^https$/ })
    .max(webhookUrlLengthMax)
    .optional()
    .meta({
      description:
        'HTTPS URL that receives the events of the job. Without it, your webhook endpoints receive them (docs/webhooks.md).',
    }),
  webhookEvents: webhookEvents.meta({
    description:
      'Events that are sent to `webhookUrl`. Defaults to the end of the job (`completed`, `failed` or `canceled`) and, for each step that begins to wait, `awaiting_approval`.',
    example: ['started', 'completed'],
  }),
};

/**
 * Parses the webhook fields. Returns null if the request has no webhook.
 * @throws GatewayError INVALID_REQUEST naming `webhookUrl` or `webhookEvents`
 */
export function parseWebhook(
  fields: { webhookUrl?: unknown; webhookEvents?: unknown },
  outbound: Outbound,
): RequestedWebhook | null {
  const url = parseWebhookUrl(fields.webhookUrl, outbound);
  const { webhookEvents: events } = parseWith(eventsSchema, {
    webhookEvents: fields.webhookEvents,
  });
  if (url !== null) return { url, events };
  if (events) throw fieldError('INVALID_REQUEST', 'webhookEvents', 'requires webhookUrl');
  return null;
}

interface StoreDeps {
  webhooks: Webhooks;
  config: Pick<Config, 'TASK_QUEUE_PREFIX'>;
}

/**
 * Stores the webhooks of a job, and returns its plan with them. They are stored before the job
 * starts, so that no started job lacks its webhooks.
 */
export async function storeWebhooks(
  { webhooks, config }: StoreDeps,
  plan: JobPlan,
  requested: RequestedWebhook | null,
): Promise<JobPlan> {
  const subjectIds = await webhooks.createForJob(plan, requested);
  if (subjectIds.length === 0) return plan;
  const webhook: JobPlan['webhook'] = {
    taskQueue: webhookTaskQueue(config.TASK_QUEUE_PREFIX),
    ...(subjectIds.some((id) => readSubjectId(id).event === 'started') && { started: true }),
    ...(!requested && { subjectIds }),
  };
  return { ...plan, webhook };
}
