/**
 * All MCP tools: one for each Studio capability, and some for jobs and models. A tool calls its
 * endpoint of the HTTP API with the caller's key, so it has the same schema, permissions, limits
 * and responses (docs/mcp.md).
 */
import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { getRequiredScope } from '../../studio/capabilities/capability.ts';
import { capabilities, findCapability } from '../../studio/capabilities/capability-registry.ts';
import type { Caller } from '../../identity/access.ts';
import { endpointTools } from './endpoint-tools.ts';
import { modelTools } from './model-tools.ts';
import { toInputSchema, type McpTool } from './mcp-tool.ts';

const capabilityTools: McpTool[] = capabilities.map((capability) => ({
  tool: {
    name: capability.type,
    title: capability.summary,
    description:
      `${capability.summary} (${capability.medium}). Costs credits, which are reserved first and ` +
      'charged only on success. Call getStudioModel for the parameters and prices of a model.',
    inputSchema: toInputSchema(capability.request),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: getRequiredScope(capability),
  toApiRequest: (input) => ({
    method: 'POST',
    path: `/api/v1${capability.path}`,
    body: input,
    headers: { prefer: 'respond-async' },
  }),
}));

/** MCP tool that estimates the price of a call to another tool. */
const estimate: McpTool = {
  tool: {
    name: 'estimate',
    title: 'Estimate the cost of a request',
    description:
      'Estimate how many credits a call of another tool would reserve, item by item. No job is started.',
    inputSchema: toInputSchema(
      z.strictObject({
        tool: z.enum(capabilities.map(({ type }) => type)),
        arguments: z
          .looseObject({})
          .meta({ description: 'Arguments for the tool named in `tool`.' }),
      }),
    ),
    annotations: { readOnlyHint: true },
  },
  scope: 'studio:read',
  toApiRequest: ({ tool, arguments: input = {} }) => ({
    method: 'POST',
    path: `/api/v1${findCapability(String(tool))?.path ?? '/studio/nothing'}/estimate`,
    body: input,
  }),
};

const tools: readonly McpTool[] = [...capabilityTools, estimate, ...modelTools, ...endpointTools];

/** Lists the tools that a key may use. */
export const listTools = ({ scopes }: Caller): Tool[] =>
  tools.filter(({ scope }) => scopes.includes(scope)).map(({ tool }) => tool);

/** Finds a tool by its name. The API checks at each call whether the key may use it. */
export const findTool = (name: string): McpTool | undefined =>
  tools.find(({ tool }) => tool.name === name);
