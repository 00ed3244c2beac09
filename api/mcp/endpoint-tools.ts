/** MCP tools of single endpoints, with their schemas. */
import { z } from 'zod';
import type { Scope } from '../identity/access.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { studioJobs } from '../endpoints/studio-jobs.ts';
import { studioModels } from '../endpoints/studio-models.ts';
import { uploadUrls } from '../endpoints/upload-urls.ts';
import {
  checkLength,
  makeInputSchema,
  toText,
  withQuery,
  type OfferedTool,
} from './offered-tool.ts';

/** Ids of the endpoints that are offered as tools. */
const offeredIds = new Set([
  'getJob',
  'listJobs',
  'cancelJob',
  'listStudioVoices',
  'createUploadUrl',
]);

/** Tools of the endpoints on jobs, voices and uploads. */
export const endpointTools: OfferedTool[] = [...studioJobs, ...studioModels, ...uploadUrls]
  .filter(({ id }) => id !== undefined && offeredIds.has(id))
  .map(makeTool);

/** Makes the tool of an endpoint, with its body or its parameters as arguments. */
function makeTool(endpoint: Endpoint): OfferedTool {
  const { id = '', summary = '', description, method, path, request, scope } = endpoint;
  const pathNames = Object.keys(request.params?.shape ?? {});
  const shape = { ...request.params?.shape, ...request.query?.shape };
  return {
    tool: {
      name: id,
      title: summary,
      description: [summary, description].filter(Boolean).join('. '),
      inputSchema: makeInputSchema(request.body ?? z.strictObject(shape)),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: method !== 'GET' && !request.body,
        openWorldHint: false,
      },
    },
    // oxlint-disable-next-line no-unsafe-type-assertion -- `offeredIds` names endpoints behind keys only
    scope: scope as Scope,
    call: (input) => {
      if (request.body) return { method, path, body: input };
      const query = Object.entries(input).filter(([name]) => !pathNames.includes(name));
      const filled = path.replaceAll(/:(\w+)/g, (_, name: string) =>
        encodeURIComponent(toText(input[name] ?? '')),
      );
      checkLength(input);
      return { method, path: withQuery(filled, Object.fromEntries(query)) };
    },
  };
}
