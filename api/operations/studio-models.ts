/**
 * GET /api/v1/studio/models and /studio/voices: what the Studio takes, from the very data that requests
 * are checked by (design §7).
 */
import { z } from 'zod';
import { defaultVoiceName, voices } from '../../catalog/voices.ts';
import { scopeOf } from '../../studio/capability.ts';
import { capabilities } from '../../studio/registry.ts';
import { type PricedCapability, priceExampleSchema, priceRuleSchema } from '../studio/prices.ts';
import { found, listOf } from './fields.ts';
import { defineOperation, section } from './operation.ts';

const value = z.union([z.string(), z.number(), z.boolean()]);
const rule = z
  .object({
    oneOf: z.array(value).readonly().optional(),
    min: z.number().optional(),
    max: z.number().optional(),
    itemsMax: z.int().optional(),
    charactersMax: z.int().optional(),
    size: z
      .object({
        multipleOf: z.int(),
        edgeMax: z.int(),
        pixelsMin: z.int(),
        pixelsMax: z.int(),
        ratioMax: z.number(),
      })
      .optional(),
    default: value.optional(),
  })
  .meta({
    id: 'ParameterRule',
    description: 'The values that a model accepts; bounds are inclusive.',
  });

const capabilitySchema = z.object({
  type: z.string(),
  endpoint: z.string(),
  medium: z.enum(['image', 'video', 'audio']),
  scope: z.string(),
  defaultModel: z.string().nullable(),
  models: z
    .array(
      z.object({
        id: z.string(),
        displayName: z.string(),
        servedBy: z.string(),
        selectedBy: z
          .record(z.string(), z.string())
          .meta({ description: 'The fields of a request that ask for it.' }),
        parameters: z.record(z.string(), rule),
        price: z.array(priceRuleSchema),
        example: priceExampleSchema,
      }),
    )
    .readonly(),
  request: z.looseObject({}).meta({ description: 'JSON Schema of the body.' }),
});
const voice = z.object({ name: z.string(), gender: z.string(), default: z.boolean() });

// Schemas are constants: each is described once.
const requests = new Map(
  capabilities.map(({ type, request }) => [
    type,
    z.toJSONSchema(request, { io: 'input', unrepresentable: 'any' }),
  ]),
);

/** A kind of request: its fields as JSON Schema, and the limits of each model it may name. */
function publish({ capability, models }: PricedCapability): z.infer<typeof capabilitySchema> {
  const { type, path, medium } = capability;
  return {
    type,
    endpoint: `POST /api/v1${path}`,
    medium,
    scope: scopeOf(capability),
    defaultModel: models[0]?.id ?? null,
    models,
    request: requests.get(type) ?? {},
  };
}

/** Models and voices. */
export const studioModels = section('Studio catalog', {
  listStudioModels: defineOperation({
    route: 'GET /api/v1/studio/models',
    scope: 'studio:read',
    summary: 'List the models of every Studio endpoint, with their parameters and prices',
    description: 'Made from the same tables that requests are checked by.',
    answer: listOf(capabilitySchema),
    answers: { 200: 'Every endpoint, its models, their limits and their prices.' },
    handle: (_, { prices }) => found(prices.map(publish)),
  }),

  listStudioVoices: defineOperation({
    route: 'GET /api/v1/studio/voices',
    scope: 'studio:read',
    summary: 'List the voices',
    answer: listOf(voice),
    answers: { 200: 'Every voice that a request may name.' },
    handle: () =>
      found(
        voices.map(({ name, gender }) => ({ name, gender, default: name === defaultVoiceName })),
      ),
  }),
});
