/** One sentence about a model. */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { chatProviders } from '../../catalog/chat-providers.ts';

/** Words that were true on the day they were written, and advertising. */
const passing =
  /\b(our|we|most|latest|newest|best|state[- ]of|sota|unparalleled|flagship|deprecat|retire|released?)\b|https?:|[[%]/i;
const lengthMax = 240;

/** The makers' own words where they last, else what the row itself says. */
export function describe(row: ChatModel, known: string | undefined): string {
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
