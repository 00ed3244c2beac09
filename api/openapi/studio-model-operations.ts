/** What the Studio publishes about itself: models with their limits, and voices. */
import { z } from 'zod';
import type { Operation } from './operation.ts';

const tag = 'Studio: what there is';

const rule = z
  .object({
    oneOf: z.array(z.union([z.string(), z.number(), z.boolean()])).optional(),
    min: z.number().optional(),
    max: z.number().optional(),
    itemsMax: z.int().optional(),
    charactersMax: z.int().optional(),
    size: z.record(z.string(), z.number()).optional(),
    default: z.union([z.string(), z.number(), z.boolean()]).optional(),
  })
  .meta({ id: 'ParameterRule', description: 'The values a model takes; bounds are inclusive.' });

const capability = z.object({
  type: z.string(),
  endpoint: z.string(),
  medium: z.enum(['image', 'video', 'audio']),
  scope: z.string(),
  defaultModel: z.string().nullable(),
  models: z.array(
    z.object({
      id: z.string(),
      displayName: z.string(),
      servedBy: z.string(),
      parameters: z.record(z.string(), rule),
    }),
  ),
  request: z.record(z.string(), z.unknown()).meta({ description: 'JSON Schema of the body.' }),
});

const voice = z.object({ name: z.string(), gender: z.string(), default: z.boolean() });

/** Models and voices. */
export const studioModelOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/api/v1/studio/models',
    id: 'listStudioModels',
    tag,
    summary: 'List what every Studio endpoint takes',
    description: 'Made from the very tables that requests are checked by.',
    scope: 'studio:read',
    answers: {
      200: {
        description: 'Every endpoint, its models and their limits.',
        content: {
          type: 'application/json',
          schema: z.object({ success: z.literal(true), data: z.array(capability) }),
        },
      },
    },
    errors: [],
  },
  {
    method: 'get',
    path: '/api/v1/studio/voices',
    id: 'listStudioVoices',
    tag,
    summary: 'List the voices',
    scope: 'studio:read',
    answers: {
      200: {
        description: 'Every voice that may be named.',
        content: {
          type: 'application/json',
          schema: z.object({ success: z.literal(true), data: z.array(voice) }),
        },
      },
    },
    errors: [],
  },
];
