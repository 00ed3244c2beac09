/** Builds the rows of embedding models. Prices, limits and retirement dates come from litellm. */
import type { ChatModel, EmbeddingProperties } from '../../chat/models.ts';
import { chatProviders } from '../../chat/chat-providers.ts';
import { perMillion, sourceNames } from './chat-rows.ts';
import type { ChatSources } from './chat-sources.ts';
import { createReleaseDateFinder } from './release-dates.ts';

interface EmbeddingModel {
  provider: string;
  id: string;
  name: string;
  properties: EmbeddingProperties;
}

const openai = { inputsMax: 2048, acceptsTokens: true } as const;
/** Google's OpenAI-compatible endpoint accepts 100 inputs ("at most 100 requests can be in one batch"). */
const google = { dimensions: 3072, dimensionsMax: 3072, inputsMax: 100 };
const mistral = { inputsMax: 2048 };

/** Embedding models, with the properties that no source has: those are from the providers' API references. */
const models: readonly EmbeddingModel[] = [
  {
    provider: 'openai',
    id: 'text-embedding-3-small',
    name: 'Text Embedding 3 Small',
    properties: { dimensions: 1536, dimensionsMax: 1536, ...openai },
  },
  {
    provider: 'openai',
    id: 'text-embedding-3-large',
    name: 'Text Embedding 3 Large',
    properties: { dimensions: 3072, dimensionsMax: 3072, ...openai },
  },
  {
    provider: 'openai',
    id: 'text-embedding-ada-002',
    name: 'Text Embedding Ada 002',
    properties: { dimensions: 1536, ...openai },
  },
  {
    provider: 'google',
    id: 'gemini-embedding-001',
    name: 'Gemini Embedding 001',
    properties: google,
  },
  { provider: 'google', id: 'gemini-embedding-2', name: 'Gemini Embedding 2', properties: google },
  {
    provider: 'mistral',
    id: 'mistral-embed',
    name: 'Mistral Embed',
    properties: { dimensions: 1024, ...mistral },
  },
  {
    provider: 'mistral',
    id: 'codestral-embed',
    name: 'Codestral Embed',
    properties: { dimensions: 1536, dimensionsMax: 3072, ...mistral },
  },
];

/** Builds the rows of all embedding models. @throws Error if litellm does not list one with a price */
export function buildEmbeddingRows(sources: ChatSources): ChatModel[] {
  const releasedOn = createReleaseDateFinder(sources);
  return models.map(({ provider: name, id, name: displayName, properties }) => {
    const names = sourceNames(name);
    const listed = sources.litellm[`${names.litellm}${id}`];
    const inputUsdPerMillion = perMillion(listed?.input_cost_per_token);
    const context = listed?.max_input_tokens;
    const provider = chatProviders.find((candidate) => candidate.name === name);
    if (listed?.mode !== 'embedding' || !inputUsdPerMillion || !context || !provider)
      throw new Error(`litellm does not list the embedding model ${id}`);
    const { deprecation_date: retiresOn } = listed;
    return {
      id,
      name: displayName,
      ownedBy: name,
      created: releasedOn(names, id),
      provider: name,
      protocol: provider.protocol,
      upstreamModel: id,
      cost: { inputUsdPerMillion, outputUsdPerMillion: 0 },
      limit: { context, output: 0 },
      ...(retiresOn !== undefined && { retiresOn }),
      embedding: properties,
      description: `Embedding model: vectors of ${properties.dimensions} numbers, up to ${context} tokens per input.`,
    };
  });
}
