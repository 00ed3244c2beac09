/**
 * Decides the response of a simulated chat model: it repeats the last message, calls tools or fills the requested JSON
 * schema, and applies the faults in the prompt. Both protocols use the result.
 */
import { parseDurationMs, findFault, withoutMarkers, type Fault } from '../faults.ts';
import { generateValue } from './schema-value.ts';

/** Chat request, independent of the protocol. */
export interface Conversation {
  model: string;
  /** Text of the last user message or tool result. */
  text: string;
  /** Text of the last user message, which may contain fault markers. */
  question: string;
  /** All text, for counting tokens. */
  allText: string;
  images: number;
  tools: { name: string; parameters: unknown }[];
  /** Whether the response must be, or must not be, a tool call; a name forces a call to that tool. */
  toolChoice: 'auto' | 'none' | 'required' | { name: string };
  /** Number of assistant messages with tool calls since the last user message. */
  rounds: number;
  /** Whether the last message is a tool result. */
  afterTool: boolean;
  maxTokens: number | null;
  stops: readonly string[];
  /** JSON Schema of the response; null if the response is text. */
  schema: unknown;
  /** How the model reasons: `shown` with its text, `hidden` if only the tokens are reported, `no` without. */
  reasons: 'shown' | 'hidden' | 'no';
  /** Input tokens that are read from the prompt cache, and that are added to it. */
  cache: { read: number; write: number };
}

/** Tool call. */
interface ScriptedCall {
  name: string;
  input: unknown;
}

/** Planned response of a model. */
export interface Script {
  /** Reasoning text; empty if there is none. */
  reasoning: string;
  /** Parts of the text; each is one token and one chunk of a stream. */
  pieces: string[];
  toolCalls: ScriptedCall[];
  stop: 'end' | 'length' | 'tool' | 'sequence';
  /** Stop sequence that ended the response; null if the response ended otherwise. */
  stopSequence: string | null;
  /** Token usage; null if the response reports none. */
  usage: { input: number; output: number; reasoning: number; read: number; write: number } | null;
  /** Number of chunks after which the stream ends early; null if it does not end early. */
  cutAfter: number | null;
  /** How the stream ends early: the connection breaks, or it closes without an error. */
  cut: 'broken' | 'clean';
  /** Number of chunks after which the stream sends an error; null for none. */
  errorAfter: number | null;
  chunkDelayMs: number;
  /** Delay before the response begins, in milliseconds. */
  latencyMs: number;
}

/** Events of a streamed response, in the format of a protocol. */
export interface StreamEvents {
  start: string;
  chunks: readonly string[];
  end: string;
  error: string;
}

/** Parsed request, with functions that build responses in its protocol. */
export interface ParsedRequest {
  conversation: Conversation;
  stream: boolean;
  /** Builds the complete response. */
  answer: (script: Script) => unknown;
  events: (script: Script) => StreamEvents;
}

/** Number of tokens that an image counts for. */
const imageTokens = 100;
/** Default factor of the fault `lying-usage`. */
const lieFactor = 10;
const wordsMax = 1_000_000;
/** Output tokens of each tool call. */
const callTokens = 10;

/** Splits text into tokens of the sandbox: each is a word with the space before it. */
function split(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}

/** Counts the tokens of a string, as the sandbox defines them. */
export function countTokens(text: string): number {
  return split(text).length;
}

function generateWords(fault: Fault | undefined): string[] | null {
  if (!fault) return null;
  const count = Math.min(Number(fault.argument || 1), wordsMax);
  const length = Number(fault.options['size'] ?? 4);
  return Array.from({ length: count }, (_, index) => ` ${String(index).padEnd(length, 'x')}`);
}

function parseCount(fault: Fault | undefined): number | null {
  return fault ? Number(fault.argument || 0) : null;
}

/** Generates arguments that match the tool's schema; only the text if the tool has no parameters. */
function generateInput({ parameters }: Conversation['tools'][number], text: string): unknown {
  const input = generateValue(parameters, text);
  const isEmpty = typeof input !== 'object' || input === null || Object.keys(input).length === 0;
  return isEmpty ? { text } : input;
}

function planToolCalls(conversation: Conversation, faults: readonly Fault[]): ScriptedCall[] {
  const { tools, toolChoice, afterTool, rounds } = conversation;
  const [first] = tools;
  if (!first || toolChoice === 'none') return [];
  const scriptedCalls = faults.filter(({ name }) => name === 'tool');
  if (scriptedCalls.length > 0) {
    const { argument: name, options: input } = scriptedCalls[rounds] ?? {};
    return tools.some((tool) => tool.name === name) ? [{ name: name ?? '', input }] : [];
  }
  const wantedRounds = parseCount(findFault(faults, 'tool-rounds')) ?? 1;
  if (afterTool && toolChoice === 'auto' && rounds >= wantedRounds) return [];
  const named =
    typeof toolChoice === 'object' ? tools.find(({ name }) => name === toolChoice.name) : first;
  const count = parseCount(findFault(faults, 'parallel-calls')) ?? 1;
  const tool = named ?? first;
  const text = withoutMarkers(conversation.text);
  return Array.from({ length: count }, () => ({
    name: tool.name,
    input: generateInput(tool, text),
  }));
}

/** Returns the tokens of the response's text. */
function writeText(conversation: Conversation, calls: number, faults: readonly Fault[]): string[] {
  if (calls > 0) return findFault(faults, 'preface') ? split('Let me look.') : [];
  const text = withoutMarkers(conversation.text);
  if (conversation.schema !== null)
    return split(JSON.stringify(generateValue(conversation.schema, text)));
  const seen = conversation.images > 0 ? ` I see ${conversation.images} image(s).` : '';
  const intro = conversation.afterTool ? 'The tool said:' : 'You said:';
  return generateWords(findFault(faults, 'words')) ?? split(`${intro} ${text}${seen}`);
}

/** Ends the text before its first stop sequence. */
function cutAtStopSequence(
  pieces: string[],
  stops: readonly string[],
): { pieces: string[]; stopSequence: string | null } {
  const text = pieces.join('');
  const [first] = stops
    .map((stop) => ({ stop, at: text.indexOf(stop) }))
    .filter(({ at }) => at >= 0)
    .toSorted((a, b) => a.at - b.at);
  if (!first) return { pieces, stopSequence: null };
  return { pieces: split(text.slice(0, first.at)), stopSequence: first.stop };
}

function countUsage(
  conversation: Conversation,
  output: { reasoning: number; text: number },
  faults: readonly Fault[],
): Script['usage'] {
  if (findFault(faults, 'no-usage')) return null;
  const counted = parseCount(findFault(faults, 'counted-input'));
  const lie = findFault(faults, 'lying-usage');
  const factor = lie ? Number(lie.argument || lieFactor) : 1;
  const input = counted ?? countTokens(conversation.allText) + conversation.images * imageTokens;
  const { read, write } = conversation.cache;
  const all = Math.min(output.reasoning + output.text, conversation.maxTokens ?? Infinity);
  return {
    input: input * factor,
    output: all * factor,
    reasoning: Math.min(output.reasoning, all),
    read,
    write,
  };
}

/** Plans the response to a conversation. */
export function writeScript(conversation: Conversation, faults: readonly Fault[]): Script {
  const fault = (name: Fault['name']) => findFault(faults, name);
  const toolCalls = planToolCalls(conversation, faults);
  const all = writeText(conversation, toolCalls.length, faults);
  const { pieces: untilStop, stopSequence } = cutAtStopSequence(all, conversation.stops);
  const pieces = untilStop.slice(0, conversation.maxTokens ?? Infinity);
  const thought = `I think about: ${withoutMarkers(conversation.text)}`;
  const cut = fault('stream-cut');
  const isCut = pieces.length < untilStop.length;
  const ending = stopSequence === null ? 'end' : 'sequence';
  const text = pieces.length + toolCalls.length * callTokens;
  const reasoning = conversation.reasons === 'no' ? 0 : countTokens(thought);
  return {
    reasoning: conversation.reasons === 'shown' ? thought : '',
    pieces,
    toolCalls,
    stop: toolCalls.length > 0 ? 'tool' : isCut ? 'length' : ending,
    stopSequence: isCut ? null : stopSequence,
    usage: countUsage(conversation, { reasoning, text }, faults),
    cutAfter: parseCount(cut),
    cut: cut?.options['end'] === 'clean' ? 'clean' : 'broken',
    errorAfter: parseCount(fault('stream-error')),
    chunkDelayMs: parseDurationMs(fault('slow-chunks')?.argument ?? '', 0),
    latencyMs: parseDurationMs(fault('slow')?.argument ?? '', 0),
  };
}
