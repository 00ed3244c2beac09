/**
 * What a sandboxed chat model says: it repeats the last message, calls the first tool when it may, and
 * misbehaves as the markers in the conversation ask. Both protocols tell the same script.
 */
import { durationMs, findFault, withoutMarkers, type Fault } from '../faults.ts';

/** A conversation, whichever protocol it came in. */
export interface Conversation {
  model: string;
  /** Text of the last user message or tool result. */
  text: string;
  /** Everything that was said, for counting. */
  allText: string;
  images: number;
  tools: { name: string }[];
  /** Whether the answer has to be, or may not be, a tool call; a name calls that tool. */
  toolChoice: 'auto' | 'none' | 'required' | { name: string };
  /** Whether the last message is a tool's result. */
  afterTool: boolean;
  maxTokens: number | null;
}

/** The answer of a model. */
export interface Script {
  /** Pieces of the text; each is one token and one chunk. */
  pieces: string[];
  toolCall: { name: string; input: { text: string } } | null;
  stop: 'end' | 'length' | 'tool';
  /** Null: the answer says nothing about usage. */
  usage: { input: number; output: number } | null;
  /** Stop after this many chunks, without the protocol's end. */
  cutAfter: number | null;
  /** How it stops: the connection breaks, or the answer ends as if it were whole. */
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

/** What a picture counts, in tokens. */
const imageTokens = 100;
/** How much more than the truth a liar says. */
const lieFactor = 10;
const wordsMax = 1_000_000;

/** Sandbox tokens: words with the space before them. */
function split(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
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

function toolCallOf(talk: Conversation): Script['toolCall'] {
  const { tools, toolChoice, afterTool } = talk;
  const named = typeof toolChoice === 'object' ? toolChoice.name : tools[0]?.name;
  if (named === undefined || toolChoice === 'none') return null;
  if (afterTool && toolChoice === 'auto') return null;
  return { name: named, input: { text: withoutMarkers(talk.text) } };
}

/** Writes the answer to a conversation. */
export function writeScript(talk: Conversation, faults: readonly Fault[]): Script {
  const fault = (name: Fault['name']) => findFault(faults, name);
  const toolCall = toolCallOf(talk);
  const said = withoutMarkers(talk.text);
  const seen = talk.images > 0 ? ` I see ${talk.images} image(s).` : '';
  const intro = talk.afterTool ? 'The tool said:' : 'You said:';
  const all = toolCall ? [] : (wordsOf(fault('words')) ?? split(`${intro} ${said}${seen}`));
  const pieces = all.slice(0, talk.maxTokens ?? Infinity);
  const counted = countOf(fault('counted-input'));
  const input = counted ?? split(talk.allText).length + talk.images * imageTokens;
  const output = toolCall ? 10 : pieces.length;
  const lie = fault('lying-usage');
  const factor = lie ? Number(lie.argument || lieFactor) : 1;
  const cut = fault('stream-cut');
  return {
    pieces,
    toolCall,
    stop: toolCall ? 'tool' : pieces.length < all.length ? 'length' : 'end',
    usage: fault('no-usage') ? null : { input: input * factor, output: output * factor },
    cutAfter: countOf(cut),
    cut: cut?.options['end'] === 'clean' ? 'clean' : 'broken',
    errorAfter: countOf(fault('stream-error')),
    chunkDelayMs: durationMs(fault('slow-chunks')?.argument ?? '', 0),
    latencyMs: durationMs(fault('slow')?.argument ?? '', 0),
  };
}
