/** POST /api/v1/embeddings: vectors of texts, in the format of OpenAI's API, and their price. */
import {
  embeddingsPresentation,
  embeddingsRequestSchema,
  embeddingsResponse,
} from '../../../chat/formats/embeddings-request.ts';
import { defineChatEndpoint, defineEstimateEndpoint } from '../chat-endpoint.ts';

/** Maximum number of JSON values in a request: the tokens of all inputs, and room for the rest. */
const bodyValuesMax = 310_000;
const bodyBytesMax = 8 * 1024 * 1024;

const request = {
  path: '/api/v1/embeddings',
  body: embeddingsRequestSchema,
  bodyValuesMax,
  bodyBytesMax,
  numbersKept: new Set<string>(),
  example: { model: 'text-embedding-3-small', input: ['A lighthouse.', 'A pier at night.'] },
} as const;

/** Endpoint POST /api/v1/embeddings. */
export const createEmbeddings = defineChatEndpoint({
  ...request,
  errorFormat: 'openai',
  summary: 'Create embeddings (OpenAI-compatible)',
  description:
    'Returns a vector for each input: a text, or a list of tokens for models that accept them. GET /api/v1/models lists the ' +
    'models, whose `kind` is `embedding`. The input tokens are charged as those of a chat. Unknown fields are ignored.',
  response: { description: 'The vectors, in the order of the inputs.', schema: embeddingsResponse },
  presentation: () => embeddingsPresentation,
});

/** Endpoint POST /api/v1/embeddings/estimate. */
export const estimateEmbeddings = defineEstimateEndpoint({
  ...request,
  summary: 'Estimate the price of embeddings',
});
