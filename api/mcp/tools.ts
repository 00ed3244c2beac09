/**
 * MCP tools: one for each Studio capability, and some endpoints on jobs and models, with the
 * schemas of the endpoints. A tool calls the HTTP API with the caller's key, so it has the same
 * permissions, limits and responses as its endpoint (docs/mcp.md).
 */
import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { scopeOf } from '../../studio/capability.ts';
import { capabilities, findCapability } from '../../studio/registry.ts';
import type { Caller } from '../identity/access.ts';
import { endpointTools } from './endpoint-tools.ts';
import { modelTools } from './model-tools.ts';
import { makeInputSchema, type OfferedTool } from './offered-tool.ts';

const capabilityTools: OfferedTool[] = capabilities.map((capability) => ({
  tool: {
    name: capability.type,
    title: capability.summary,
    description:
      `${capability.summary} (${capability.medium}). Costs credits, which are reserved first and ` +
      'charged only on success. Call getStudioModel for the parameters and prices of a model.',
    inputSchema: makeInputSchema(capability.request),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  },
  scope: scopeOf(capability),
  call: (input) => ({
    method: 'POST',
    path: `/api/v1${capability.path}`,
    body: input,
    headers: { prefer: 'respond-async' },
  }),
}));

/** Tool that estimates the price of a request of any capability. */
const estimate: OfferedTool = {
  tool: {
    name: 'estimate',
    title: 'Estimate the cost of a request',
    description:
      'Estimate the credits that a job tool would reserve, item by item. No job is started.',
    inputSchema: makeInputSchema(
      z.strictObject({
        tool: z.enum(capabilities.map(({ type }) => type)),
        arguments: z.looseObject({}).meta({ description: 'Arguments of that tool.' }),
      }),
    ),
    annotations: { readOnlyHint: true },
  },
  scope: 'studio:read',
  call: ({ tool, arguments: input = {} }) => ({
    method: 'POST',
    path: `/api/v1${findCapability(String(tool))?.path ?? '/studio/nothing'}/estimate`,
    body: input,
  }),
};

const tools: readonly OfferedTool[] = [
  ...capabilityTools,
  estimate,
  ...modelTools,
  ...endpointTools,
];

/** Lists the tools that a key may use. */
export const toolsFor = ({ scopes }: Caller): Tool[] =>
  tools.filter(({ scope }) => scopes.includes(scope)).map(({ tool }) => tool);

/** Finds a tool by its name; the API checks at the call whether the key may use it. */
export const findTool = (name: string): OfferedTool | undefined =>
  tools.find(({ tool }) => tool.name === name);
