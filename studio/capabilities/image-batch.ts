/**
 * POST /studio/image/batch (spec §4.7). Each picture has its own calls and is charged separately.
 */
import { z } from 'zod';
import { backgroundRemovers, upscalers } from '../models/image-tools.ts';
import { removalPriceRules, upscalePriceRules } from '../models/price-rules.ts';
import { fieldError, fieldsError, invalidFieldsError, assert } from '../../domain/errors.ts';
import { defineCapability, type FinishedJob } from './capability.ts';
import type { DraftPlan, RejectedItems } from '../../domain/draft-plan.ts';
import { publishModels } from '../models/published-models.ts';
import { urlExpiry } from './presentation.ts';
import { asyncFlag, mediaUrl, mediaUrls, scaleChoice } from './request-fields.ts';
import { buildPictureInputs } from './image-calls.ts';
import type { CallOutputs } from '../../domain/job-plan.ts';
import { contentCredentials } from '../../domain/job-record.ts';
import { findModel, throwIfUnsupported } from '../models/model-parameters.ts';
import { planRemoval, planUpscale } from './picture-tools.ts';

const oneUnitPerUrl = { of: 'imageUrls', default: null };
const upscaleOnlyFields = ['scaleFactor', 'service'] as const;

const fields = z.strictObject({
  operation: z.enum(['remove-background', 'upscale']),
  imageUrls: mediaUrls.optional(),
  /** Former name of `imageUrls`, accepted if every item is a URL. */
  prompts: z.array(z.string().max(4096)).min(1).max(10).optional(),
  scaleFactor: scaleChoice.optional(),
  service: z.string().max(64).optional(),
  async: asyncFlag,
});

type BatchRequest = z.infer<typeof fields>;

/** Schema of the response's `data`; `results` is in the order of the request's pictures. */
const batchData = z.object({
  total: z.int(),
  successful: z.int(),
  failed: z.int(),
  results: z.array(
    z.union([
      z.object({
        success: z.literal(true),
        index: z.int(),
        data: z.url(),
        contentCredentials,
        expiresAt: urlExpiry,
      }),
      z.object({
        success: z.literal(false),
        index: z.int(),
        error: z.object({ code: z.string(), message: z.string() }),
      }),
    ]),
  ),
});

/** Upscales several pictures, or removes their backgrounds. */
export const imageBatch = defineCapability({
  type: 'imageBatch',
  path: '/studio/image/batch',
  medium: 'image',
  summary: 'Upscale several images or remove their backgrounds, each charged on its own',
  request: fields,
  takes: { imageUrls: ['image'] },
  example: {
    operation: 'remove-background',
    imageUrls: ['https://example.com/1.png', 'https://example.com/2.png'],
  },
  data: batchData,
  models: [
    ...publishModels(upscalers, {
      selectedBy: ({ id }) => ({ operation: 'upscale', service: id }),
      parameters: ({ parameters: { scaleFactor = {} } }) => ({ scaleFactor }),
      price: (service) => upscalePriceRules(service, oneUnitPerUrl),
    }),
    ...publishModels(backgroundRemovers.slice(0, 1), {
      selectedBy: () => ({ operation: 'remove-background' }),
      price: (model) => removalPriceRules(model, oneUnitPerUrl),
    }),
  ],
  plan: (body) => (body.operation === 'upscale' ? planUpscales(body) : planRemovals(body)),
  present: presentBatch,
});

function planUpscales(body: BatchRequest): DraftPlan {
  const { service: id = 'service_a', scaleFactor } = body;
  const service = findModel(upscalers, id, 'service');
  throwIfUnsupported(service, { scaleFactor });
  const inputs = buildPictureInputs(...findImageUrls(body));
  // No call is required, because a failed step of one picture must not fail the job.
  const calls = inputs.flatMap((source, index) => {
    const options = { fields: { scaleFactor }, source };
    const callsPerItem = service.steps[scaleFactor ?? 2]?.length ?? 1;
    return planUpscale(service, { ...options, firstCall: index * callsPerItem }).map((call) => ({
      ...call,
      required: false,
    }));
  });
  return { model: service.id, calls, inputs, itemized: true };
}

function planRemovals(body: BatchRequest): DraftPlan {
  const unsupportedFields = upscaleOnlyFields.filter((field) => body[field] !== undefined);
  if (unsupportedFields.length > 0) {
    const message = 'only supported with operation "upscale"';
    throw invalidFieldsError(
      'UNSUPPORTED_PARAMETER',
      unsupportedFields.map((path) => ({ path, message })),
    );
  }
  const [model] = backgroundRemovers;
  assert(model, 'there is no default background remover');
  const inputs = buildPictureInputs(...findImageUrls(body));
  return {
    model: model.id,
    calls: inputs.map((source) => planRemoval(model, {}, source)),
    inputs,
    itemized: true,
  };
}

/**
 * Returns the field that contains the picture URLs, and the URLs.
 * @throws GatewayError CONFLICTING_FIELDS, INVALID_REQUEST
 */
function findImageUrls({ imageUrls, prompts }: BatchRequest): [field: string, urls: string[]] {
  if (imageUrls && prompts && !haveSameItems(imageUrls, prompts)) {
    const message =
      'prompts is another name of imageUrls; send only one of them, or the same list in both';
    throw fieldsError('CONFLICTING_FIELDS', ['imageUrls', 'prompts'], message);
  }
  if (imageUrls) return ['imageUrls', imageUrls];
  if (!prompts) throw fieldError('INVALID_REQUEST', 'imageUrls', 'is required');
  const invalidIndex = prompts.findIndex((item) => !mediaUrl.safeParse(item).success);
  if (invalidIndex >= 0) {
    const message = 'must be an http(s) URL of a picture';
    throw fieldError('INVALID_REQUEST', `prompts.${invalidIndex}`, message);
  }
  return ['prompts', prompts];
}

function haveSameItems(items: readonly string[], others: readonly string[]): boolean {
  return items.length === others.length && items.every((item, index) => item === others[index]);
}

const rejectedItems: z.ZodType<RejectedItems> = z
  .record(z.string(), z.object({ code: z.string(), message: z.string() }))
  .default({});

function presentBatch(job: FinishedJob): Record<string, unknown> {
  const field = job.request['imageUrls'] === undefined ? 'prompts' : 'imageUrls';
  const items = job.request[field];
  const total = Array.isArray(items) ? items.length : 0;
  const rejected = rejectedItems.parse(job.request['rejectedItems']);
  const stepsPerItem = job.outputs.length / (total - Object.keys(rejected).length);
  let outputIndex = 0;
  const results = Array.from({ length: total }, (_, index) => {
    const error = rejected[`${field}.${index}`];
    if (error) return { success: false, index, error };
    outputIndex += stepsPerItem;
    return presentItem(job, index, job.outputs.slice(outputIndex - stepsPerItem, outputIndex));
  });
  const successful = results.filter((result) => result.success).length;
  return { total, successful, failed: total - successful, results };
}

/**
 * Returns the result of one picture: the output of its last step, or the first error of its steps.
 */
function presentItem(job: FinishedJob, index: number, outputs: CallOutputs[]) {
  const [artifact] = outputs.at(-1)?.artifacts ?? [];
  if (artifact) {
    const { contentCredentials: credentials } = artifact;
    return {
      success: true,
      index,
      data: job.urlOf(artifact),
      contentCredentials: credentials,
      expiresAt: job.urlsExpireAt,
    };
  }
  const error = outputs.find((call) => call.error)?.error;
  return {
    success: false,
    index,
    error: error ?? { code: 'PROVIDER_ERROR', message: 'the provider delivered no picture' },
  };
}
