/** MCP tools that describe the models of Studio. */
import { z } from 'zod';
import { capabilities } from '../../studio/registry.ts';
import { listSchema } from '../endpoints/fields.ts';
import { capabilitySchema } from '../endpoints/studio-models.ts';
import {
  checkLength,
  makeInputSchema,
  withQuery,
  type Arguments,
  type OfferedTool,
} from './offered-tool.ts';
import type { OwnCall } from './own-api.ts';

const publishedModels = listSchema(capabilitySchema);

function makeModelsCall(input: Arguments): OwnCall {
  checkLength(input);
  return { method: 'GET', path: withQuery('/api/v1/studio/models', input) };
}

/** Tools that list all models briefly, and describe one in full, by the same endpoint. */
export const modelTools: OfferedTool[] = [
  {
    tool: {
      name: 'listStudioModels',
      title: 'List the models of every Studio tool',
      description:
        'List the models of every Studio tool, with the credits of an example request. ' +
        'getStudioModel has the parameters and prices of one model.',
      inputSchema: makeInputSchema(z.strictObject({})),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    call: makeModelsCall,
    present: (body) => ({
      data: publishedModels.parse(body).data.map(({ type: tool, defaultModel, models }) => ({
        tool,
        defaultModel,
        models: models.map(({ id, displayName, example }) => ({
          id,
          displayName,
          exampleCredits: example.credits,
        })),
      })),
    }),
  },
  {
    tool: {
      name: 'getStudioModel',
      title: 'Describe a model of a Studio tool',
      description: 'Get the parameters that a model accepts, its price rules and an example price.',
      inputSchema: makeInputSchema(
        z.strictObject({
          tool: z.enum(capabilities.map(({ type }) => type)),
          model: z.string().max(100).optional().meta({ description: 'Absent: all its models.' }),
        }),
      ),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    call: ({ tool, ...rest }) => makeModelsCall({ type: tool ?? '', ...rest }),
    // The schema of the request is the schema of the tool.
    present: (body) => ({
      data: publishedModels.parse(body).data.map((each) => ({ ...each, request: undefined })),
    }),
  },
];
