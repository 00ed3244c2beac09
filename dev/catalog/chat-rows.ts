/** Merges the sources into rows of the chat catalog; README.md states the rules. */
import type { ChatCost, ChatModel } from '../../catalog/chat-model.ts';
import type { ChatProvider } from '../../catalog/chat-providers.ts';
import { describe } from './chat-description.ts';
import { releaseDates } from './chat-release-dates.ts';
import { ownerOf, sourceNames, type SourceNames } from './chat-source-names.ts';
import type { ChatSources, LitellmModel, PiModel } from './chat-sources.ts';

/** The rows, and what a person who refreshes the catalog should look at. */
export interface ChatRows {
  rows: ChatModel[];
  notes: string[];
}

/** Models that are no chat models by use, not open to everyone, or sold against the use of the data. */
const notForChat =
  /(^|[-/])(codex|contributor|cyber|daybreak|deep-research|computer-use|customtools|robotics|realtime|live|image|tts|labs|safeguard)(-|$)/;

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
  // OpenAI's largest models answer on another endpoint only.
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

/** The list price of pi-ai, unless both other sources agree on another one. */
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
      return { inputUsdPerMillion: second.input, outputUsdPerMillion: second.output };
    }
  }
  const [tier] = cost.tiers ?? [];
  return {
    inputUsdPerMillion: cost.input,
    outputUsdPerMillion: cost.output,
    ...(tier &&
      tier.inputTokensAbove < model.contextWindow && {
        longInput: {
          inputTokensAbove: tier.inputTokensAbove,
          inputUsdPerMillion: tier.input,
          outputUsdPerMillion: tier.output,
        },
      }),
  };
}

/** USD per token → USD per million, without the noise of binary fractions. */
function perMillion(usdPerToken: number | undefined): number | undefined {
  return usdPerToken === undefined ? undefined : Number((usdPerToken * 1e6).toFixed(6));
}

interface RowFacts {
  sources: ChatSources;
  cost: ChatCost;
  created: number;
}

function rowOf(candidate: Candidate, facts: RowFacts): ChatModel {
  const { provider, names, model, litellm } = candidate;
  const dev = facts.sources.modelsDev[names.modelsDev]?.models[model.id];
  const reads = (modality: string): boolean =>
    model.input.includes(modality) || dev?.modalities?.input.includes(modality) === true;
  const row: ChatModel = {
    id: publicId(candidate),
    name: provider.hosts ? `${model.name} (${provider.displayName})` : model.name,
    ownedBy: ownerOf(provider, model.id),
    created: facts.created,
    provider: provider.name,
    protocol: provider.protocol,
    upstreamModel: model.id,
    cost: facts.cost,
    // Some providers list an answer longer than the whole context.
    limit: { context: model.contextWindow, output: Math.min(model.maxTokens, model.contextWindow) },
    ...(model.reasoning && { reasoning: true }),
    ...(reads('image') && { supportsImages: true }),
    ...((reads('video') || litellm?.supports_video_input) && { supportsVideo: true }),
    ...((reads('audio') || litellm?.supports_audio_input) && { supportsAudio: true }),
    ...(litellm?.deprecation_date !== undefined && { retiresOn: litellm.deprecation_date }),
  };
  const known = facts.sources.described(names.genaiPrices, model.id);
  return { ...row, description: describe(row, known?.id === model.id ? known.description : '') };
}
