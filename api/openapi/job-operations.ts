/** The job resource, described (design §4). */
import { z } from 'zod';
import { errorTable } from '../../domain/errors.ts';
import { listing, poll } from '../routes/jobs.ts';
import type { Operation } from './operation.ts';

const tag = 'Jobs';
const time = z.iso.datetime();

/** The `credits` block (spec §2.7), in credits. */
export const creditsSchema = z
  .object({ used: z.number(), cost: z.number(), remaining: z.number() })
  .meta({ id: 'Credits', description: 'Charged so far, price, and balance left, in credits.' });

/** `data` of a 202 answer. */
export const ticketSchema = z
  .object({
    jobId: z.string(),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']),
    statusUrl: z.url(),
    cancelUrl: z.url(),
    createdAt: time,
    deadlineAt: time,
  })
  .meta({ id: 'JobTicket' });

/** The job resource. */
export const jobSchema = z
  .object({
    jobId: z.string(),
    type: z.string(),
    model: z.string().nullable(),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']),
    done: z.boolean().meta({ description: 'All that a poller must read.' }),
    phase: z.enum([
      'reserved',
      'waiting_for_provider',
      'submitting',
      'generating',
      'verifying_outcome',
      'done',
    ]),
    progress: z.unknown(),
    createdAt: time,
    startedAt: time.nullable(),
    completedAt: time.nullable(),
    deadlineAt: time,
    result: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({ description: 'The `data` of the synchronous answer.' }),
    error: z
      .object({
        code: z.enum(Object.keys(errorTable)),
        message: z.string(),
        retryable: z.boolean(),
      })
      .nullable(),
    billing: z.object({
      state: z.enum(['reserved', 'charged', 'released']),
      reserved: z.number(),
      charged: z.number(),
    }),
    requestId: z.string(),
    statusUrl: z.url(),
    cancelUrl: z.url(),
  })
  .meta({ id: 'Job' });

const oneJob = z.object({ success: z.literal(true), data: jobSchema, credits: creditsSchema });
const params = z.object({ jobId: z.string() });

/** Get, list, events, cancel. */
export const jobOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/api/v1/studio/jobs/{jobId}',
    id: 'getJob',
    tag,
    summary: 'Look at a job',
    description:
      'With `wait` the answer is held back until the job is done, at most so many seconds.',
    scope: 'studio:read',
    params,
    query: poll,
    answers: {
      200: { description: 'The job.', content: { type: 'application/json', schema: oneJob } },
    },
    errors: ['INVALID_REQUEST', 'JOB_NOT_FOUND'],
  },
  {
    method: 'get',
    path: '/api/v1/studio/jobs',
    id: 'listJobs',
    tag,
    summary: 'List jobs, newest first',
    scope: 'studio:read',
    query: listing,
    answers: {
      200: {
        description: 'A page of jobs.',
        content: {
          type: 'application/json',
          schema: z.object({
            success: z.literal(true),
            data: z.array(jobSchema),
            hasMore: z.boolean(),
            nextCursor: z.string().nullable(),
          }),
        },
      },
    },
    errors: ['INVALID_REQUEST'],
  },
  {
    method: 'get',
    path: '/api/v1/studio/jobs/{jobId}/events',
    id: 'streamJob',
    tag,
    summary: 'Follow a job',
    description:
      'Server-sent events named `job`, each with the job resource; ends when it is done.',
    scope: 'studio:read',
    params,
    answers: {
      200: {
        description: 'Events.',
        content: {
          type: 'text/event-stream',
          schema: z.object({ event: z.literal('job'), data: z.string() }),
        },
      },
    },
    errors: ['JOB_NOT_FOUND'],
  },
  {
    method: 'post',
    path: '/api/v1/studio/jobs/{jobId}/cancel',
    id: 'cancelJob',
    tag,
    summary: 'Cancel a job',
    description:
      'Before the provider was asked the job is canceled and released. After that a cancel is tried there, and what it says decides.',
    scope: 'studio:read',
    params,
    answers: {
      200: { description: 'It has ended.', content: { type: 'application/json', schema: oneJob } },
      202: {
        description: 'The provider has not decided yet.',
        content: { type: 'application/json', schema: oneJob },
      },
    },
    errors: ['JOB_NOT_FOUND', 'JOB_ALREADY_DONE'],
  },
];
