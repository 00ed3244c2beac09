/** MCP tools that each call one API endpoint. */
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import type { Scope } from '../../identity/access.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { studioJobs } from '../endpoints/studio-jobs.ts';
import { studioModels } from '../endpoints/studio-models.ts';
import { uploadUrls } from '../endpoints/upload-urls.ts';
import { checkLength, toInputSchema, toText, appendQuery, type McpTool } from './mcp-tool.ts';

/** Ids of the endpoints that are available as tools. */
const endpointIds = new Set([
  'getJob',
  'listJobs',
  'cancelJob',
  'listStudioVoices',
  'createUploadUrl',
]);

/** Tools for jobs, voices and uploads. */
export const endpointTools: McpTool[] = [...studioJobs, ...studioModels, ...uploadUrls]
  .filter(({ id }) => id !== undefined && endpointIds.has(id))
  .map(buildTool);

/** Builds the tool of an endpoint: its arguments are the body's fields, or else the parameters. */
function buildTool(endpoint: Endpoint): McpTool {
  const { id = '', summary = '', description, method, path, request, scope } = endpoint;
  const pathNames = Object.keys(request.params?.shape ?? {});
  const argumentFields = { ...request.params?.shape, ...request.query?.shape };
  return {
    tool: {
      name: id,
      title: summary,
      description: [summary, description].filter(Boolean).join('. '),
      inputSchema: toInputSchema(request.body ?? z.strictObject(argumentFields)),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: method !== 'GET' && !request.body,
        openWorldHint: false,
      },
    },
    // oxlint-disable-next-line no-unsafe-type-assertion -- all endpoints in `endpointIds` require a scope
    scope: scope as Scope,
    toApiRequest: (input) => {
      if (request.body) return { method, path, body: input };
      // An invalid id such as `events` could be the path of another endpoint.
      const problem = request.params?.safeParse(input).error?.issues[0];
      if (problem) throw new McpError(ErrorCode.InvalidParams, problem.message);
      const query = Object.entries(input).filter(([name]) => !pathNames.includes(name));
      const filled = path.replaceAll(/:(\w+)/g, (_, name: string) =>
        encodeURIComponent(toText(input[name] ?? '')),
      );
      checkLength(input);
      return { method, path: appendQuery(filled, Object.fromEntries(query)) };
    },
  };
}
