/** What the sources call a provider, and who made a model that someone else serves. */
import type { ChatProvider } from '../../catalog/chat-providers.ts';

/** A provider's name in each source. */
export interface SourceNames {
  piAi: string;
  /** Start of its keys; the makers with the oldest entries have none. */
  litellm: string;
  modelsDev: string;
  modelPrices: string;
  genaiPrices: string;
}

const renamed: Readonly<Record<string, Partial<SourceNames>>> = {
  openai: { litellm: '' },
  anthropic: { litellm: '' },
  google: { litellm: 'gemini/' },
  xai: { genaiPrices: 'x-ai' },
  moonshotai: { litellm: 'moonshot/' },
  xiaomi: { litellm: 'xiaomi_mimo/' },
  together: { litellm: 'together_ai/', modelsDev: 'togetherai' },
};

/** The names of one of our providers. */
export function sourceNames(provider: string): SourceNames {
  const same = { piAi: provider, modelsDev: provider, modelPrices: provider };
  return { ...same, litellm: `${provider}/`, genaiPrices: provider, ...renamed[provider] };
}

/** Makers by how the ids of their models look, wherever they are served. */
const makers: readonly (readonly [RegExp, string])[] = [
  [/(^|\/)gpt-oss/i, 'openai'],
  [/(^|\/)gemma/i, 'google'],
  [/(^|\/)(zai-)?glm-/i, 'zai'],
  [/(^|\/)deepseek-/i, 'deepseek'],
  [/(^|\/)(llama|muse|meta-llama)-/i, 'meta'],
  [/(^|\/)qwen/i, 'qwen'],
  [/(^|\/)kimi-/i, 'moonshotai'],
  [/(^|\/)minimax-/i, 'minimax'],
];

/** The maker of a model: by its id, else by the first part of it, else the provider itself. */
export function ownerOf(provider: ChatProvider, upstreamModel: string): string {
  const known = makers.find(([looks]) => looks.test(upstreamModel));
  if (known) return known[1];
  const [organization, rest] = upstreamModel.split('/');
  return rest !== undefined && organization ? organization.toLowerCase() : provider.name;
}
