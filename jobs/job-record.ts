/** A job as its row tells it: what every view of a job is made from. */
import { z } from 'zod';
import { errorTable } from '../domain/errors.ts';
import { keysOf, type Json } from '../domain/json.ts';
import { callOutputs } from './call-outputs.ts';

/** A job with its billing and the balance of its organization; times are Unix ms, amounts micro-credits. */
export const jobRow = z.object({
  id: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  status: z.enum(['queued', 'completed', 'failed', 'canceled']),
  verifying: z.boolean(),
  request: z.record(z.string(), z.json()),
  outputs: z.array(callOutputs).nullable(),
  error: z.object({ code: z.enum(keysOf(errorTable)), message: z.string() }).nullable(),
  request_id: z.string(),
  created_at: z.number(),
  deadline_at: z.number(),
  completed_at: z.number().nullable(),
  /** When the first call was about to be sent. */
  started_at: z.number().nullable(),
  call_states: z.array(z.string()).nullable(),
  progress: z.json(),
  billing_state: z.enum(['reserved', 'charged', 'released']),
  reserved: z.number(),
  charged: z.number().nullable(),
  available: z.number(),
});

/** Content of JSON artifacts by storage key. */
export type Documents = ReadonlyMap<string, Json>;

/** See `jobRow`; `documents` are loaded for a finished job that is looked at by itself. */
export type JobRecord = z.infer<typeof jobRow> & { documents?: Documents };
