/** What the calls of a job left behind, as `job.outputs` keeps it. Workflows know the types alone (job-plan.ts). */
import { z } from 'zod';

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
