/** A job as its row tells it: what every view of a job is made from. */
import { z } from 'zod';
import { errorTable } from '../domain/errors.ts';
import { keysOf, type Json } from '../domain/json.ts';

/** One stored output. */
export const storedArtifact = z.object({
  storageKey: z.string(),
  contentType: z.string(),
  sizeBytes: z.number(),
  /** Hex SHA-256 of the stored bytes. */
  sha256: z.string(),
  width: z.number().nullable(),
  height: z.number().nullable(),
  durationSeconds: z.number().nullable(),
  /** Whether a video can be heard; null for other media. */
  hasAudio: z.boolean().nullable(),
});

/** What a call left behind. */
export const callOutputs = z.object({
  callIndex: z.number(),
  artifacts: z.array(storedArtifact),
  /** What the provider told beside the artifacts, or the answer of a call whose result is data. */
  data: z.json(),
  /** Units of the call's meter to charge, at most its quantity. */
  delivered: z.number(),
  /** Micro-credits by which the delivered units are cheaper than those that were asked for. */
  discountMicro: z.number().exactOptional(),
  /** Why this call delivered less than it was asked for; null when it delivered all. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

/** A job with its billing and the balance of its organization; times are Unix ms, amounts micro-credits. */
export const jobRow = z.object({
  id: z.string(),
  organization_id: z.string(),
  key_id: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  /** That of the first call. */
  provider: z.string(),
  status: z.enum(['queued', 'completed', 'failed', 'canceled']),
  verifying: z.boolean(),
  request: z.record(z.string(), z.json()),
  /** The caller's own pairs; null where there are none. */
  metadata: z.record(z.string(), z.string()).nullable(),
  outputs: z.array(callOutputs).nullable(),
  error: z.object({ code: z.enum(keysOf(errorTable)), message: z.string() }).nullable(),
  request_id: z.string(),
  created_at: z.number(),
  deadline_at: z.number(),
  completed_at: z.number().nullable(),
  /** When its owner deleted what it made. */
  media_deleted_at: z.number().nullable(),
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

export type JobRecord = z.infer<typeof jobRow> & { documents?: Documents };
