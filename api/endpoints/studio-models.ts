/**
 * GET /api/v1/studio/models and /studio/voices: list the parameters, prices and voices of the
 * Studio's models, using the same data that validates requests.
 */
import { z } from 'zod';
import { defaultVoiceName, voices } from '../../studio/models/voices.ts';
import { fieldError } from '../../domain/errors.ts';
import { formatAllowedValues } from '../../domain/field-messages.ts';
import { getRequiredScope, yieldsOf } from '../../studio/capabilities/capability.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import {
  type PricedCapability,
  priceExampleSchema,
  priceRuleSchema,
} from '../../studio/requests/prices.ts';
import { toData, listSchema } from './fields.ts';
import { describeConstant } from '../http/constants.ts';
import { defineEndpoint, defineSection, rawResponse } from './endpoint.ts';

const parameterValue = z.union([z.string(), z.number(), z.boolean()]);
const parameterRule = z
  .object({
    oneOf: z.array(parameterValue).readonly().optional(),
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
    default: parameterValue.optional(),
  })
  .meta({
    id: 'ParameterRule',
    description: 'Values that a model accepts for a parameter; bounds are inclusive.',
  });

const handover = z.enum(['image', 'video', 'audio', 'text', 'compositionPlan']);

/** Schema of a Studio endpoint and its models. */
export const capabilitySchema = z.object({
  type: z.string(),
  endpoint: z.string(),
  medium: z.enum(['image', 'video', 'audio', 'mixed']),
  scope: z.string(),
  defaultModel: z.string().nullable(),
  models: z
    .array(
      z.object({
        id: z.string(),
        displayName: z.string(),
        servedBy: z.string(),
        typicalSeconds: z
          .number()
          .nullable()
          .meta({ description: 'Typical duration of a job in seconds; null if unknown.' }),
        selectedBy: z
          .record(z.string(), z.string())
          .meta({ description: 'Request fields and the values that select this model.' }),
        parameters: z.record(z.string(), parameterRule),
        price: z.array(priceRuleSchema),
        example: priceExampleSchema,
      }),
    )
    .readonly(),
  takes: z.record(z.string(), z.array(handover).readonly()).meta({
    description:
      'Request fields that may take the result of an earlier step of a pipeline, as `{"$from": id}`, and what they take.',
  }),
  yields: z.object({ output: handover.nullable(), texts: z.array(z.string()).readonly() }).meta({
    description:
      'Results that a later step of a pipeline may take: the output, and texts as `{"$from": id, "field": name}`.',
  }),
  request: z.looseObject({}).meta({ description: 'JSON Schema of the request body.' }),
});
const voice = z.object({ name: z.string(), gender: z.string(), default: z.boolean() });

// JSON Schemas of Studio requests, keyed by job type.
const requestSchemas = new Map(
  capabilities.map(({ type, request }) => [
    type,
    z.toJSONSchema(request, { io: 'input', unrepresentable: 'any' }),
  ]),
);

/** Returns an endpoint with its request schema, and the parameters and prices of its models. */
function toPublicEndpoint({
  capability,
  models,
}: PricedCapability): z.infer<typeof capabilitySchema> {
  const { type, path, medium } = capability;
  return {
    type,
    endpoint: `POST /api/v1${path}`,
    medium,
    scope: getRequiredScope(capability),
    defaultModel: capability.models?.[0]?.id ?? null,
    models,
    takes: capability.takes ?? {},
    yields: yieldsOf(capability),
    request: requestSchemas.get(type) ?? {},
  };
}

const modelQuery = z.strictObject({
  type: z
    .enum(capabilities.map(({ type }) => type))
    .optional()
    .meta({
      description: 'Return only the endpoint with this job type.',
      example: 'imageGenerate',
    }),
  model: z.string().max(100).optional().meta({
    description: 'Return only the endpoints that offer this model, without their other models.',
    example: 'veo',
  }),
});

/**
 * Filters Studio endpoints by job type and model. Endpoints that do not offer the model are
 * omitted.
 * @throws GatewayError INVALID_REQUEST if no endpoint of the type has the model
 */
function filterModels(
  prices: readonly PricedCapability[],
  { type, model }: z.infer<typeof modelQuery>,
): PricedCapability[] {
  const endpointsOfType = prices.filter(
    ({ capability }) => type === undefined || capability.type === type,
  );
  if (model === undefined) return endpointsOfType;
  const endpointsWithModel = endpointsOfType
    .map(({ capability, models }) => ({
      capability,
      models: models.filter(({ id }) => id === model),
    }))
    .filter(({ models }) => models.length > 0);
  if (endpointsWithModel.length > 0) return endpointsWithModel;
  const knownModels = endpointsOfType.flatMap(({ models }) => models.map(({ id }) => id));
  throw fieldError(
    'INVALID_REQUEST',
    'model',
    formatAllowedValues([...new Set(knownModels)], model),
  );
}

/** Endpoints that list models and voices. */
export const studioModels = defineSection('Studio catalog', {
  listStudioModels: defineEndpoint({
    route: 'GET /api/v1/studio/models',
    scope: 'studio:read',
    allowsTokens: true,
    summary:
      'List the models of every Studio endpoint, with their parameters and the caller’s prices',
    description: 'Studio requests are validated against the same data.',
    request: { query: modelQuery },
    response: rawResponse,
    responses: describeConstant(listSchema(capabilitySchema)),
    async handle({ ctx, caller, query }, { priceBook, listPrices, constants }) {
      const prices = await priceBook.at(caller.organizationId);
      const list = () => toData(filterModels(listPrices(prices), query).map(toPublicEndpoint));
      const isFiltered = query.type !== undefined || query.model !== undefined;
      // A list with prices of the price book is that of few callers.
      if (isFiltered || prices.name !== '') ctx.body = list();
      else {
        const whole = { name: ctx.path, type: 'application/json' };
        await constants.send(ctx, whole, () => JSON.stringify(list()));
      }
    },
  }),

  listStudioVoices: defineEndpoint({
    route: 'GET /api/v1/studio/voices',
    scope: 'studio:read',
    allowsTokens: true,
    summary: 'List the voices for speech',
    response: listSchema(voice),
    responses: { 200: 'All voices that requests accept.' },
    handle: () =>
      toData(
        voices.map(({ name, gender }) => ({ name, gender, default: name === defaultVoiceName })),
      ),
  }),
});
