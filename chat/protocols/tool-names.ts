/**
 * Maps the names of tools to names that a provider accepts, in a whole request. Agents join the
 * names of plugins, servers and tools, so a name may be longer or have other characters.
 */
import { createHash } from 'node:crypto';
import type { ChatBody, ChatMessage } from '../chat-body.ts';
import type { ChatModel } from '../models.ts';

/**
 * Patterns of the names that providers accept; of OpenAI and most others by default. Sources: the
 * API references, and the errors of the APIs.
 */
const validNames: Readonly<Record<string, RegExp>> = {
  anthropic: /^[\w-]{1,128}$/,
  google: /^[a-zA-Z_][\w-]{0,63}$/,
  moonshotai: /^[a-zA-Z_][\w-]{0,63}$/,
};
const defaultValidName = /^[\w-]{1,64}$/;

/** Maximum length of a name at most providers, and length of the hash at the end of a mapped name. */
export const nameLengthMax = 64;
const hashLength = 8;

/** Returns a name that every provider accepts; names of callers that differ stay different. */
export function shortenName(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, hashLength);
  const stem = name.replaceAll(/[^\w-]/g, '_').replace(/^(?![a-zA-Z_])/, '_');
  return `${stem.slice(0, nameLengthMax - hashLength - 1)}_${hash}`;
}

/** Request with names that a provider accepts, and the caller's names by the provider's. */
interface NamedRequest {
  body: ChatBody;
  callerNames: ReadonlyMap<string, string>;
}

/** Maps the names in the tools, the choice and the earlier calls of a request. */
export function fitToolNames({ provider, protocol }: ChatModel, body: ChatBody): NamedRequest {
  const valid = validNames[protocol === 'anthropic' ? protocol : provider] ?? defaultValidName;
  const callerNames = new Map<string, string>();
  const fit = (name: string): string => {
    if (valid.test(name)) return name;
    const fitted = shortenName(name);
    callerNames.set(fitted, name);
    return fitted;
  };
  const { tools, tool_choice: choice } = body;
  const fitted = {
    ...body,
    messages: body.messages.map((message) => fitCalls(message, fit)),
    ...(tools && { tools: tools.map((tool) => fitFunction(tool, fit)) }),
    ...(typeof choice === 'object' && { tool_choice: fitFunction(choice, fit) }),
  };
  return { body: callerNames.size === 0 ? body : fitted, callerNames };
}

function fitFunction<Named extends { function: { name: string } }>(
  named: Named,
  fit: (name: string) => string,
): Named {
  return { ...named, function: { ...named.function, name: fit(named.function.name) } };
}

function fitCalls(message: ChatMessage, fit: (name: string) => string): ChatMessage {
  if (message.role !== 'assistant') return message;
  const blocks = message.blocks.map((block) =>
    block.type === 'function' ? fitFunction(block, fit) : block,
  );
  return { ...message, blocks };
}
