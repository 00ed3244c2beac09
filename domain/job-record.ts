/** Job as it is read from the database. Every response that shows a job is built from it. */
import { z } from 'zod';
import { fixedUnits } from './book-price.ts';
import { errorTable } from './errors.ts';
import { isRecord, keysOf, type Json, type JsonObject } from './json.ts';

/**
 * Schema of the origin of a file's marks as generated media: the provider, the gateway, or none.
 */
export const contentCredentials = z.enum(['provider', 'gateway', 'none']).meta({
  description:
    'Origin of the marks (C2PA, IPTC) that declare the file as generated: the provider, the gateway, or none.',
});

/** Schema of a stored output. */
export const storedArtifact = z.object({
  storageKey: z.string(),
  contentType: z.string(),
  sizeBytes: z.number(),
  /** SHA-256 of the stored bytes, in hex. */
  sha256: z.string(),
  width: z.number().nullable(),
  height: z.number().nullable(),
  durationSeconds: z.number().nullable(),
  /** True if a video has sound; null for other media. */
  hasAudio: z.boolean().nullable(),
  /** Origin of the marks of generated media in the file (docs/files.md). */
  contentCredentials: contentCredentials.default('none'),
});

/** Schema of the charge of a call. Prices are those of a unit; discounts are on the whole charge. */
export const chargeLine = z.object({
  unit: z.enum(fixedUnits),
  quantity: z.number(),
  unitPriceMicro: z.number(),
  discountMicro: z.number(),
  /** Price in the catalog. */
  unitCostMicro: z.number(),
  costDiscountMicro: z.number(),
  /** Row of the price book; absent if the catalog's price applies. */
  row: z.string().exactOptional(),
});

/** Schema of the outputs of a call. */
export const callOutputs = z.object({
  callIndex: z.number(),
  artifacts: z.array(storedArtifact),
  /**
   * Data that the provider returned in addition to artifacts. If the result has no artifacts, the
   * data is the result.
   */
  data: z.json(),
  /** Number of delivered units that are charged, at most the quantity of the call. */
  delivered: z.number(),
  /**
   * Discount on the whole charge of the call in micro-credits; absent if no delivered output is
   * cheaper than the requested output.
   */
  discountMicro: z.number().exactOptional(),
  /** Discount on the catalog's price, if it is another one. */
  costDiscountMicro: z.number().exactOptional(),
  /** Charge of the call; absent if it is not charged. */
  line: chargeLine.exactOptional(),
  /** Error of a call that delivered less than requested; null if it delivered everything. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  /** Charge of the call in micro-credits; only in pipelines, which show it by step. */
  chargedMicro: z.number().exactOptional(),
  /** Id of the job that delivered the outputs, if a resumed pipeline took them over. */
  takenFrom: z.string().exactOptional(),
  /** Texts that the call took from earlier steps, by field; only in the first call of a step. */
  texts: z.record(z.string(), z.string()).exactOptional(),
});

/** Schema of an output of a step that a later step may take. */
const stepOutput = z.object({
  medium: z.enum(['image', 'video', 'audio']),
  callIndex: z.number(),
  artifactIndex: z.number(),
  /** False if a film certainly has no sound. */
  hasAudio: z.boolean().exactOptional(),
});
export type StepOutput = z.infer<typeof stepOutput>;

/** Schema of a step of a pipeline, as it is stored with its job. */
const jobStep = z.object({
  id: z.string(),
  use: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  /** Index of the first call, and number of calls. */
  calls: z.tuple([z.number(), z.number()]),
  assembledIndex: z.number().nullable(),
  outputs: z.array(stepOutput),
  /** Id of the job whose outputs the step has taken over; null if the step runs. */
  takenFrom: z.string().nullable(),
  after: z.array(z.string()),
  /** True if the body has a URL whose secret parameters are not stored. */
  hasSecretInputs: z.literal(true).exactOptional(),
  priceMicro: z.number(),
  /** Error of a step of a job that has failed; outputs contain those of other jobs. */
  error: z.object({ code: z.string(), message: z.string() }).exactOptional(),
  /** Micro-credits that a provider's report may add to the price; absent if it may add none. */
  allowanceMicro: z.number().exactOptional(),
  approval: z.object({ withinMs: z.number() }).exactOptional(),
});
export type JobStep = z.infer<typeof jobStep>;

/** Returns whether a call, or the joined artifact, with this index belongs to a step. */
export function isCallOf({ calls: [first, count], assembledIndex }: JobStep, index: number) {
  return (index >= first && index < first + count) || index === assembledIndex;
}

/** Schema of the approval of a step, as it is stored with its job. */
const stepApproval = z.object({
  /** Times in Unix milliseconds, by the clock of the workflow. */
  sinceMs: z.number(),
  untilMs: z.number(),
  /** Outputs of the steps whose results the step takes. */
  outputs: z.array(callOutputs),
  /** End of the wait; null while the step waits. */
  end: z
    .object({
      kind: z.enum(['approve', 'reject', 'timeout', 'cancel']),
      /** Hash of the decision; null if the step was not decided. */
      hash: z.string().nullable(),
      /** Key that decided; null if the step was not decided. */
      keyId: z.string().nullable(),
      reason: z.string().nullable(),
    })
    .nullable(),
});
export type StepApproval = z.infer<typeof stepApproval>;

/** Schema of the id of the step to which something in a job belongs. */
export const pipelineStepId = z
  .string()
  .nullable()
  .meta({ description: 'Id of the step of a pipeline; null in other jobs.' });

/** Schema of the state of a call of a pipeline. */
const stepCall = z.object({
  index: z.number(),
  state: z.string(),
  begunAtMs: z.number(),
  answeredAtMs: z.number().nullable(),
  /** Time of the last change or notification of the call: its end, once the call has ended. */
  changedAtMs: z.number(),
  outputs: callOutputs.nullable(),
});

/**
 * Schema of a job with its billing state and the available credits of its organization. Times are
 * Unix milliseconds; amounts are micro-credits.
 */
export const jobRow = z.object({
  id: z.string(),
  organizationId: z.string(),
  keyId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  /** Provider of the first call. */
  provider: z.string(),
  status: z.enum(['open', 'completed', 'failed', 'canceled']),
  verifying: z.boolean(),
  /** Code of the first error of the ended job or of its calls that leaves a provider's outcome unknown. */
  unknownOutcome: z.string().nullable(),
  request: z.record(z.string(), z.json()),
  /** The caller's metadata; null if there is none. */
  metadata: z.record(z.string(), z.string()).nullable(),
  /** Recipe of the request, as `name@version`; null if it had none. */
  recipe: z.string().nullable(),
  outputs: z.array(callOutputs).nullable(),
  /** Steps of a pipeline; null for other jobs. */
  steps: z.array(jobStep).nullable(),
  /** Approvals for which steps have waited, by step id; null if none has. */
  approvals: z.record(z.string(), stepApproval).nullable(),
  /** Recorded calls of a pipeline, with their outputs until it ends; null if there are none. */
  stepCalls: z.array(stepCall).nullable(),
  error: z.object({ code: z.enum(keysOf(errorTable)), message: z.string() }).nullable(),
  requestId: z.string(),
  createdAtMs: z.number(),
  deadlineAtMs: z.number(),
  completedAtMs: z.number().nullable(),
  /** Time at which the outputs were deleted; null if they were not deleted. */
  mediaDeletedAtMs: z.number().nullable(),
  /** Time at which the first call was recorded, just before it was sent; null if none was. */
  startedAtMs: z.number().nullable(),
  /**
   * States of the recorded calls. `storing`: the provider has finished the call, and its result is
   * being stored.
   */
  callStates: z.array(z.string()).nullable(),
  /** Largest queue position that a provider reports for a call; null if none reports one. */
  queuePosition: z.number().nullable(),
  /** Typical duration in seconds; null if the catalog has none or the job has ended. */
  typicalSeconds: z.number().nullable(),
  billingState: z.enum(['reserved', 'charged', 'released']),
  reserved: z.number(),
  charged: z.number().nullable(),
  refunded: z.number(),
  available: z.number(),
});

/** Parsed contents of JSON artifacts, by storage key. */
export type Documents = ReadonlyMap<string, Json>;

export type JobRecord = z.infer<typeof jobRow> & { documents?: Documents };

const transcriptWord = z.object({
  text: z.string(),
  start: z
    .number()
    .meta({ description: 'Start of the word, in seconds from the start of the recording.' }),
  end: z.number(),
  type: z.enum(['word', 'spacing', 'audio_event']),
  speakerId: z.string().optional(),
});
/**
 * Schema of a transcript with word timestamps. It is long, so it is stored as a document and never
 * sent through Temporal.
 */
export const transcript = z.object({
  text: z.string(),
  language: z.string(),
  durationSeconds: z.number(),
  words: z.array(transcriptWord),
});
export type Transcript = z.infer<typeof transcript>;

const promptLineMax = 140;

/**
 * Returns the first line of a request's text, as a human-readable title of the job; null if the
 * request has no text.
 */
export function extractPromptLine({
  prompt,
  text,
  inputs,
  title,
  steps,
}: JsonObject): string | null {
  if (Array.isArray(steps)) {
    const lines = steps.map((step) =>
      isRecord(step) && isRecord(step['body']) ? extractPromptLine(step['body']) : null,
    );
    return lines.find((stepLine) => stepLine !== null) ?? null;
  }
  const [firstInput] = Array.isArray(inputs) ? inputs : [];
  const dialogueText = isRecord(firstInput) ? firstInput['text'] : undefined;
  const requestText = [prompt, text, dialogueText, title].find(
    (candidate) => typeof candidate === 'string',
  );
  const line = typeof requestText === 'string' ? (requestText.trim().split(/\r?\n/)[0] ?? '') : '';
  if (line === '') return null;
  const characters = Array.from(line);
  return characters.length > promptLineMax
    ? `${characters.slice(0, promptLineMax - 1).join('')}…`
    : line;
}

/** Returns a text that describes the outputs of a request: its title, or the start of its prompt. */
export const extractTitle = (request: JsonObject): string | null =>
  typeof request['title'] === 'string' ? request['title'] : extractPromptLine(request);
