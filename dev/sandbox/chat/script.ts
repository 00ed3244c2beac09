/**
 * Answers of a sandboxed chat model: it repeats the last message, or calls tools, or fills the requested JSON schema, and
 * fails as the markers in the conversation say. Both protocols send the same script.
 */
import { durationMs, findFault, withoutMarkers, type Fault } from '../faults.ts';
import { valueOf } from './schema-value.ts';

/** A conversation, in either protocol. */
export interface Conversation {
  model: string;
  /** Text of the last user message or tool result. */
  text: string;
  /** Text of the last user message, which has the markers. */
  question: string;
  /** All text, for counting. */
  allText: string;
  images: number;
  tools: { name: string; parameters: unknown }[];
  /** Whether the answer has to be, or may not be, a tool call; a name calls that tool. */
  toolChoice: 'auto' | 'none' | 'required' | { name: string };
  /** Assistant messages with tool calls since the last user message. */
  rounds: number;
  /** Whether the last message is a tool result. */
  afterTool: boolean;
  maxTokens: number | null;
  stops: readonly string[];
  /** JSON Schema of the answer; null if the answer is text. */
  schema: unknown;
  /** Whether the model shows its reasoning; `hidden` if it only counts it. */
  reasons: 'shown' | 'hidden' | 'no';
  /** Input tokens that are read from the cache of prompts, and that are written to it. */
  cache: { read: number; write: number };
}

/** A call of a tool. */
interface ScriptedCall {
  name: string;
  input: unknown;
}

/** The answer of a model. */
export interface Script {
  /** Reasoning before the answer; empty if there is none. */
  reasoning: string;
  /** Pieces of the text; each is one token and one chunk. */
  pieces: string[];
  toolCalls: ScriptedCall[];
  stop: 'end' | 'length' | 'tool' | 'sequence';
  /** Stop sequence at which the answer ended. */
  stopSequence: string | null;
  /** Tokens; null: the answer does not state usage. */
  usage: { input: number; output: number; reasoning: number; read: number; write: number } | null;
  /** Stop after this many chunks, without the protocol's end. */
  cutAfter: number | null;
  /** Kind of stop: the connection breaks, or the answer ends as if it were whole. */
  cut: 'broken' | 'clean';
  /** Send an error after this many chunks. */
  errorAfter: number | null;
  chunkDelayMs: number;
  /** Before the head of the answer. */
  latencyMs: number;
}

/** A protocol's events for a script, as the text of the stream. */
export interface Wording {
  start: string;
  chunks: readonly string[];
  end: string;
  /** An error event. */
  error: string;
}

/** A request that a protocol has read. */
export interface Told {
  talk: Conversation;
  stream: boolean;
  /** The whole answer. */
  answer: (script: Script) => unknown;
  wording: (script: Script) => Wording;
}

/** Tokens of a picture. */
const imageTokens = 100;
/** Factor of a false usage report, if the marker states none. */
const lieFactor = 10;
const wordsMax = 1_000_000;
/** Output tokens of a tool call. */
const callTokens = 10;

/** Splits text into sandbox tokens: words with the space before them. */
function split(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}

/** Counts the sandbox tokens of a text. */
export function countTokens(text: string): number {
  return split(text).length;
}

function wordsOf(fault: Fault | undefined): string[] | null {
  if (!fault) return null;
  const count = Math.min(Number(fault.argument || 1), wordsMax);
  const length = Number(fault.options['size'] ?? 4);
  return Array.from({ length: count }, (_, index) => ` ${String(index).padEnd(length, 'x')}`);
}

function countOf(fault: Fault | undefined): number | null {
  return fault ? Number(fault.argument || 0) : null;
}

/** Arguments of a call: schema-true, or the text if the tool has no parameters. */
function inputOf({ parameters }: Conversation['tools'][number], text: string): unknown {
  const input = valueOf(parameters, text);
  const isEmpty = typeof input !== 'object' || input === null || Object.keys(input).length === 0;
  return isEmpty ? { text } : input;
}

function toolCallsOf(talk: Conversation, faults: readonly Fault[]): ScriptedCall[] {
  const { tools, toolChoice, afterTool, rounds } = talk;
  const [first] = tools;
  if (!first || toolChoice === 'none') return [];
  const wantedRounds = countOf(findFault(faults, 'tool-rounds')) ?? 1;
  if (afterTool && toolChoice === 'auto' && rounds >= wantedRounds) return [];
  const named =
    typeof toolChoice === 'object' ? tools.find(({ name }) => name === toolChoice.name) : first;
  const count = countOf(findFault(faults, 'parallel-calls')) ?? 1;
  const tool = named ?? first;
  const text = withoutMarkers(talk.text);
  return Array.from({ length: count }, () => ({ name: tool.name, input: inputOf(tool, text) }));
}

/** Returns the text of the answer in pieces. */
function textOf(talk: Conversation, calls: number, faults: readonly Fault[]): string[] {
  if (calls > 0) return findFault(faults, 'preface') ? split('Let me look.') : [];
  const said = withoutMarkers(talk.text);
  if (talk.schema !== null) return split(JSON.stringify(valueOf(talk.schema, said)));
  const seen = talk.images > 0 ? ` I see ${talk.images} image(s).` : '';
  const intro = talk.afterTool ? 'The tool said:' : 'You said:';
  return wordsOf(findFault(faults, 'words')) ?? split(`${intro} ${said}${seen}`);
}

/** Cuts a text before the first stop sequence in it. */
function stopped(
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

function usageOf(
  talk: Conversation,
  output: { reasoning: number; text: number },
  faults: readonly Fault[],
): Script['usage'] {
  if (findFault(faults, 'no-usage')) return null;
  const counted = countOf(findFault(faults, 'counted-input'));
  const lie = findFault(faults, 'lying-usage');
  const factor = lie ? Number(lie.argument || lieFactor) : 1;
  const input = counted ?? countTokens(talk.allText) + talk.images * imageTokens;
  const { read, write } = talk.cache;
  const all = Math.min(output.reasoning + output.text, talk.maxTokens ?? Infinity);
  return {
    input: input * factor,
    output: all * factor,
    reasoning: Math.min(output.reasoning, all),
    read,
    write,
  };
}

/** Writes the answer to a conversation. */
export function writeScript(talk: Conversation, faults: readonly Fault[]): Script {
  const fault = (name: Fault['name']) => findFault(faults, name);
  const toolCalls = toolCallsOf(talk, faults);
  const all = textOf(talk, toolCalls.length, faults);
  const { pieces: unstopped, stopSequence } = stopped(all, talk.stops);
  const pieces = unstopped.slice(0, talk.maxTokens ?? Infinity);
  const thought = `I think about: ${withoutMarkers(talk.text)}`;
  const cut = fault('stream-cut');
  const isCut = pieces.length < unstopped.length;
  const ending = stopSequence === null ? 'end' : 'sequence';
  const text = pieces.length + toolCalls.length * callTokens;
  const reasoning = talk.reasons === 'no' ? 0 : countTokens(thought);
  return {
    reasoning: talk.reasons === 'shown' ? thought : '',
    pieces,
    toolCalls,
    stop: toolCalls.length > 0 ? 'tool' : isCut ? 'length' : ending,
    stopSequence: isCut ? null : stopSequence,
    usage: usageOf(talk, { reasoning, text }, faults),
    cutAfter: countOf(cut),
    cut: cut?.options['end'] === 'clean' ? 'clean' : 'broken',
    errorAfter: countOf(fault('stream-error')),
    chunkDelayMs: durationMs(fault('slow-chunks')?.argument ?? '', 0),
    latencyMs: durationMs(fault('slow')?.argument ?? '', 0),
  };
}
