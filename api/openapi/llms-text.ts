/** Builds llms.txt, a description of the API for language models (llmstxt.org). */
import { toOpenapiPath, type EndpointDescription } from '../endpoints/description.ts';

/** Returns the text of llms.txt. `prices` are lines of a Markdown list. */
export function buildLlmsText(
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
    '> One API for chat and Studio jobs (image, video, voice, music, sound effects, transcription).',
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
    'Each Studio path has an estimate: append `/estimate` and send the same body. It returns the price, and starts and charges nothing.',
    `All prices and their units: ${baseUrl}/api/v1/pricing`,
    '',
    ...prices,
    '',
  ].join('\n');
}
