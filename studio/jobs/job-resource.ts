/** Schemas of the job resource, of a 202 response and of the `credits` block. */
import { z } from 'zod';
import type { CreditsBlock } from '../../domain/credits.ts';
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';

const time = z.iso.datetime();
const status = z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']);

/** Schema of the `credits` block (spec §2.7). All amounts are in credits. */
export const creditsSchema: z.ZodType<CreditsBlock> = z
  .object({ used: z.number(), cost: z.number(), remaining: z.number() })
  .meta({
    id: 'Credits',
    description:
      'Amounts in credits: charged so far (`used`), price (`cost`) and available balance (`remaining`).',
  });

/** Schema of the `data` of a 202 response. */
export const ticketSchema = z
  .object({
    jobId: z.string(),
    status,
    statusUrl: z.url(),
    cancelUrl: z.url(),
    createdAt: time,
    deadlineAt: time,
  })
  .meta({ id: 'JobTicket' });

/** Schema of the job resource. */
export const jobSchema = z
  .object({
    jobId: z.string(),
    keyId: z.string(),
    type: z.string(),
    model: z.string().nullable(),
    provider: z.string().meta({ description: 'Provider of the first call.' }),
    prompt: z.string().nullable().meta({
      description:
        'First line of the prompt or text of the request, at most 140 characters; null if it has none.',
    }),
    status,
    done: z.boolean().meta({ description: 'True once the job has ended: poll until then.' }),
    phase: z.enum([
      'queued',
      'waiting_for_provider',
      'submitting',
      'generating',
      'storing',
      'verifying_outcome',
      'done',
    ]),
    progress: z
      .object({
        queuePosition: z
          .int()
          .nullable()
          .meta({ description: 'Position in the queue of the provider; null if it reports none.' }),
        share: z.number().nullable().meta({
          description:
            'Elapsed part of the usual duration, from 0 to 1; null if the usual duration is unknown.',
        }),
        etaSeconds: z.int().nullable().meta({
          description:
            'Seconds that are left of the usual duration; 0 if the job takes longer than usual, null if the usual duration is unknown.',
        }),
      })
      .nullable()
      .meta({
        description:
          'Estimated progress; null before the first call is sent and after the job has ended.',
      }),
    createdAt: time,
    startedAt: time.nullable(),
    completedAt: time.nullable(),
    deadlineAt: time,
    result: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({ description: 'The same object as `data` in the response to a synchronous request.' }),
    mediaDeletedAt: time.nullable().meta({
      description: 'Time at which the owner deleted the media; `result` is null afterwards.',
    }),
    error: z
      .object({ code: z.enum(keysOf(errorTable)), message: z.string(), retryable: z.boolean() })
      .nullable(),
    billing: z.object({
      state: z.enum(['reserved', 'charged', 'released']),
      reserved: z.number(),
      charged: z.number(),
      refunded: z
        .number()
        .meta({ description: 'Part of `charged` that an operator has given back.' }),
    }),
    metadata: z
      .record(z.string(), z.string())
      .meta({ description: 'Key-value pairs from the request; empty if it had none.' }),
    requestId: z.string(),
    statusUrl: z.url(),
    cancelUrl: z.url(),
  })
  .meta({ id: 'Job' });

/** Job resource. */
export type JobResource = z.infer<typeof jobSchema>;
