/** Request fields that several capabilities share (spec §4.7–§4.9, §8). */
import { z } from 'zod';
import type { Limit } from '../models/audio-models.ts';
import { voices } from '../models/voices.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';
import { idPattern } from '../../domain/ids.ts';
import { isRecord } from '../../domain/json.ts';

/** Output formats that a caller may request. */
export const imageFormats = ['jpeg', 'png', 'webp'] as const;

/** Schema of a scale factor: 2, 4 or 6. */
export const scaleChoice = z.literal([2, 4, 6]);

/** Schema of a seed: 0–2147483647. */
export const seedNumber = z.int().min(0).max(2_147_483_647);

/**
 * Schema of an input: an http(s) URL or the id of an uploaded file. The API replaces each `data:`
 * URL with the id of an uploaded file before it parses the request.
 */
export const mediaUrl = z.union(
  [z.url({ protocol: /^https?$/ }).max(4096), z.string().max(37).regex(idPattern('upload'))],
  { error: 'must be an http(s) URL, the id of an uploaded file, or a data URL of up to 1 MB' },
);

/** Schema of a list of 1–10 inputs (spec §8). */
export const mediaUrls = z.array(mediaUrl).min(1).max(10);

/** Schema of a number of images: 1–10. */
export const imageCount = z.int().min(1).max(10);

/**
 * Creates the schema of a public model id. The schema accepts unknown ids; when the request is
 * planned, they are rejected with an error that lists the known ids.
 */
export function modelId(models: readonly { id: string }[], defaultId: string) {
  return z
    .string()
    .max(100)
    .default(defaultId)
    .meta({
      // `enum` is only documentation: the schema does not reject an unknown id, because the error
      // for it has a code of its own.
      enum: models.map((model) => model.id),
      example: defaultId,
    });
}

/** Creates the schema of a string that has a limited length and is not blank. */
export function textField({ min, max }: Limit) {
  return z.string().min(min).max(max).regex(/\S/u, 'must not be blank');
}

/** Schema of a prompt of 3–2000 characters. */
export const promptText = textField({ min: 3, max: 2000 });

/** Creates the schema of a number with limits. */
export function numberField({ min, max }: Limit) {
  return z.number().min(min).max(max);
}

/** Creates the schema of a number with limits and a default. */
export function numberFieldWithDefault(limit: Limit & { default: number }) {
  return numberField(limit).default(limit.default);
}

/** Schema of the name of a voice (spec §4.8). */
export const voiceName = z
  .enum(voices.map((voice) => voice.name))
  .meta({ description: 'Name of a voice.', example: 'rachel' });

/** Schema of the field `async`: if true, the 202 response is sent immediately. */
export const asyncFlag = z.boolean().optional();

/** Reason why a field is not allowed in the body of a step, by its name. */
const fieldsOfRequest = {
  async: 'must be absent: it is a field of the whole pipeline',
  webhookUrl: 'must be absent: it is a field of the whole pipeline',
  webhookEvents: 'must be absent: it is a field of the whole pipeline',
  metadata: 'must be absent: it is a field of the whole pipeline',
  recipe: 'must be absent: it is a field of the whole pipeline',
  maxCredits: 'must be absent: it is a field of the step, beside its body',
};
/** Reason why a field is not allowed in the body of an item of a bulk job. */
const fieldsOfBulk = { async: 'must be absent: no request waits for an item of a bulk job' };

/** Creates the schema of a body in a request, which may not have the named fields. */
const createInnerBody = (forbidden: Readonly<Record<string, string>>) =>
  anyJsonObject
    .superRefine((body, context) => {
      for (const [name, message] of Object.entries(forbidden)) {
        const isSent = isRecord(body) && Object.hasOwn(body, name);
        if (isSent) context.addIssue({ code: 'custom', path: [name], message });
      }
    })
    .meta(anyJsonObject.meta() ?? {});

/** Schema of the body of a step of a pipeline. */
export const stepBody = createInnerBody(fieldsOfRequest);
/** Schema of the body of an item of a bulk job. */
export const itemBody = createInnerBody(fieldsOfBulk);

/**
 * Maximum size of a long request field, in bytes of JSON. A job plan contains the field twice (in
 * the request and in a provider's input) and must stay below 64 KB, the limit for a workflow's
 * history.
 */
const planFieldBytesMax = 28_000;

/** Error text for a value that does not fit into a job plan. */
export const tooLongForPlan = `must have at most ${planFieldBytesMax} bytes of JSON`;

/** Returns whether the JSON of a value is short enough for a job plan. */
export function fitsIntoPlan(value: unknown): boolean {
  return Buffer.byteLength(JSON.stringify(value)) <= planFieldBytesMax;
}
