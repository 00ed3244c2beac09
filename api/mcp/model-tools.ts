/** MCP tools that list and describe the Studio models. */
import { z } from 'zod';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { listSchema } from '../endpoints/fields.ts';
import { capabilitySchema } from '../endpoints/studio-models.ts';
import {
  checkLength,
  toInputSchema,
  appendQuery,
  type Arguments,
  type McpTool,
} from './mcp-tool.ts';
import type { ApiRequest } from './own-api-client.ts';

const publishedModels = listSchema(capabilitySchema);

function buildModelsRequest(input: Arguments): ApiRequest {
  checkLength(input);
  return { method: 'GET', path: appendQuery('/api/v1/studio/models', input) };
}

/**
 * MCP tools that call GET /api/v1/studio/models. `listStudioModels` lists all models briefly;
 * `getStudioModel` describes one model fully.
 */
export const modelTools: McpTool[] = [
  {
    tool: {
      name: 'listStudioModels',
      title: 'List the models of every Studio tool',
      description:
        'List the models of every Studio tool, with the price of an example request in credits. ' +
        'Call getStudioModel for the parameters and prices of one model.',
      inputSchema: toInputSchema(z.strictObject({})),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    toApiRequest: buildModelsRequest,
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
      inputSchema: toInputSchema(
        z.strictObject({
          tool: z.enum(capabilities.map(({ type }) => type)),
          model: z
            .string()
            .max(100)
            .optional()
            .meta({ description: 'Id of the model. Omit to describe all models of the tool.' }),
        }),
      ),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    scope: 'studio:read',
    toApiRequest: ({ tool, ...rest }) => buildModelsRequest({ type: tool ?? '', ...rest }),
    // The request schema is omitted, because it is already the input schema of the tool.
    present: (body) => ({
      data: publishedModels.parse(body).data.map((capability) => ({
        ...capability,
        request: undefined,
      })),
    }),
  },
];
