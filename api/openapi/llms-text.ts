/** llms.txt: a description of the API for language models (llmstxt.org). */
import { toOpenapiPath, type EndpointDescription } from '../endpoints/description.ts';

/** Returns llms.txt; `prices` are lines of a Markdown list. */
export function makeLlmsText(
  baseUrl: string,
  endpoints: readonly EndpointDescription[],
  prices: readonly string[],
): string {
  const lines = endpoints.map(
    (endpoint) => `- ${endpoint.method} ${toOpenapiPath(endpoint)}: ${endpoint.summary}`,
  );
  return [
    '# Studio Gateway',
    '',
    '> One API for chat and Studio work (image, video, voice, music, sound effects, transcription).',
    '',
    `Base URL ${baseUrl}. Send \`Authorization: Bearer <API key>\`. Bodies are JSON. Studio responses are`,
    '`{success, data, credits}`, or 202 with `data.statusUrl` to poll until `data.done` is true.',
    `Full description: ${baseUrl}/api/v1/openapi.json`,
    '',
    '## Endpoints',
    '',
    ...lines,
    '',
    '## Prices of the Studio models, in credits',
    '',
    'A path plus `/estimate` takes the same body and returns what it would cost, without starting or charging anything.',
    `Everything, and how to count it: ${baseUrl}/api/v1/pricing`,
    '',
    ...prices,
    '',
  ].join('\n');
}
