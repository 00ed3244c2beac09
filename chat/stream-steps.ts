/** Reads a provider's answer: the events of a stream, or a whole answer, as steps. */
import { finished, type Readable } from 'node:stream';
import { createParser, type EventSourceParser } from 'eventsource-parser';
import { GatewayError } from '../domain/errors.ts';
import { asRecord, asText } from '../domain/json.ts';
import type { AnswerReader, ChatAnswer, StreamStep } from './protocols/protocol.ts';
import { repairDocument, StreamTextRepair } from './text-repair.ts';
import { invalidResponseError, networkFailure } from './upstream-failures.ts';

/** Maximum length of what is streamed as one event or document, in UTF-16 units. */
const streamedLengthMax = 32 * 1024 * 1024;

/**
 * Splits the text of an answer into events. Some providers answer with one JSON document where a
 * stream was requested, and the other way round.
 */
class AnswerText {
  readonly #reader: AnswerReader;
  readonly #lengthMax: number;
  readonly #parser: EventSourceParser;
  readonly #repair = new StreamTextRepair();
  #steps: StreamStep[] = [];
  #format: 'unknown' | 'events' | 'document' = 'unknown';
  /** Text of a document, or the text before the format is known. */
  #texts: string[] = [];
  #length = 0;

  constructor(reader: AnswerReader, lengthMax: number) {
    this.#reader = reader;
    this.#lengthMax = lengthMax;
    this.#parser = createParser({
      maxBufferSize: lengthMax,
      onEvent: ({ event, data }) => {
        const steps = reader.read({ event, data: this.#repair.repair(data) });
        for (const step of steps) this.#steps.push(step);
      },
    });
  }

  /** @throws GatewayError if the text cannot be parsed; the steps before the error can be taken */
  add(text: string): void {
    if (this.#format === 'events') {
      this.#parser.feed(text);
      return;
    }
    this.#texts.push(text);
    this.#length += text.length;
    if (this.#length > this.#lengthMax) throw invalidResponseError(null);
    const [first] = text.trimStart();
    if (this.#format === 'document' || first === undefined) return;
    this.#format = first === '{' || first === '[' ? 'document' : 'events';
    if (this.#format === 'events') this.#parser.feed(this.#texts.join(''));
  }

  /** Ends the text. Its last event may lack the blank line after it. @throws GatewayError */
  end(): void {
    if (this.#format === 'events') this.#parser.feed('\n\n');
    else this.#steps.push(...this.#reader.readDocument(repairDocument(this.#texts.join(''))));
  }

  take(): StreamStep[] {
    const steps = this.#steps;
    this.#steps = [];
    return steps;
  }
}

/** Number of bytes that may wait to be read. With more, the response is paused. */
const waitingBytesMax = 64 * 1024;

/**
 * Packets of a response that have arrived and wait to be read. A response that fails discards the
 * packets that it holds itself.
 */
class ArrivedPackets {
  /** Error with which the response has failed; null if it has not. */
  error: unknown = null;
  readonly #body: Readable;
  #packets: Buffer[] = [];
  #waitingBytes = 0;
  #hasEnded = false;
  #isDiscarding = false;
  #arrival = Promise.withResolvers<void>();

  constructor(body: Readable) {
    this.#body = body;
    body.on('data', (packet: Buffer) => this.#add(packet));
    finished(body, (error) => {
      this.error = error ?? null;
      this.#hasEnded = true;
      this.#arrival.resolve();
    });
  }

  /** Waits until packets have arrived, and returns them; none at the end of the response. */
  async take(): Promise<Buffer[]> {
    if (this.#packets.length === 0 && !this.#hasEnded) {
      this.#arrival = Promise.withResolvers();
      await this.#arrival.promise;
    }
    const packets = this.#packets;
    this.#packets = [];
    this.#waitingBytes = 0;
    this.#body.resume();
    return packets;
  }

  /** Discards the rest of the response, so that its connection can be used again. */
  discardRest(): void {
    this.#isDiscarding = true;
    this.#body.resume();
  }

  #add(packet: Buffer): void {
    if (this.#isDiscarding) return;
    this.#packets.push(packet);
    this.#waitingBytes += packet.length;
    if (this.#waitingBytes > waitingBytesMax) this.#body.pause();
    this.#arrival.resolve();
  }
}

/**
 * Yields the steps of the packets that have arrived, and skips packets without steps.
 * @throws GatewayError if the stream ends early or cannot be parsed; the steps before the error
 * have been yielded by then
 */
export async function* readSteps(
  body: Readable,
  reader: AnswerReader,
): AsyncGenerator<StreamStep[], void> {
  const decoder = new TextDecoder();
  const text = new AnswerText(reader, streamedLengthMax);
  const arrived = new ArrivedPackets(body);
  for (;;) {
    const packets = await arrived.take();
    if (packets.length === 0) break;
    const failure = catchFailure(() => {
      for (const packet of packets) text.add(decoder.decode(packet, { stream: true }));
    });
    const steps = text.take();
    if (steps.length > 0) yield steps;
    if (failure) throw failure;
    if (!reader.isEnded) continue;
    arrived.discardRest();
    break;
  }
  const failure =
    arrived.error === null ? catchFailure(() => text.end()) : networkFailure(arrived.error);
  // A failure after the end is ignored, because the answer is complete.
  if (!reader.complete) throw failure ?? invalidResponseError(null);
  yield [...text.take(), ...reader.end()];
}

/** Parses a whole answer. @throws GatewayError if it is incomplete, invalid or an error */
export function readAnswer(received: string, reader: AnswerReader): ChatAnswer {
  const text = new AnswerText(reader, received.length);
  text.add(received);
  text.end();
  if (!reader.complete) throw invalidResponseError(null);
  return joinSteps([...text.take(), ...reader.end()], reader);
}

/** Joins the steps of an answer. */
export function joinSteps(
  steps: readonly StreamStep[],
  {
    head,
    finishReason,
    stopSequence,
  }: Pick<AnswerReader, 'head' | 'finishReason' | 'stopSequence'>,
): ChatAnswer {
  const { id, created, model } = head;
  const choices = new Map<unknown, Fields>();
  for (const { chunk } of steps) {
    for (const choice of Array.isArray(chunk['choices']) ? chunk['choices'].map(asRecord) : []) {
      choices.set(choice['index'], addChoice(choices.get(choice['index']), choice));
    }
  }
  const fields = steps.at(-1)?.chunk;
  return {
    completion: {
      ...fields,
      id,
      object: 'chat.completion',
      created,
      model,
      choices: [...choices.values()],
    },
    steps,
    text: steps.map((step) => step.text).join(''),
    finishReason,
    stopSequence,
    outputText: steps.map((step) => step.outputText).join(''),
  };
}

function catchFailure(run: () => void): GatewayError | null {
  try {
    run();
    return null;
  } catch (error) {
    return error instanceof GatewayError ? error : invalidResponseError(error);
  }
}

type Fields = Record<string, unknown>;

/** Adds a choice of a chunk to the choice of a completion. */
function addChoice(whole: Fields = {}, { delta, logprobs, ...choice }: Fields): Fields {
  const message = addDelta(asRecord(whole['message']), asRecord(delta));
  return { ...whole, ...choice, logprobs: logprobs ?? whole['logprobs'] ?? null, message };
}

/** Adds a delta to a message: joins texts and lists, and the pieces of tool calls by their index. */
function addDelta(message: Fields, { tool_calls: pieces, ...delta }: Fields): Fields {
  const joined: Fields = { refusal: null, ...message };
  for (const [name, value] of Object.entries(delta)) {
    const known = joined[name];
    if (name !== 'role' && typeof known === 'string' && typeof value === 'string')
      joined[name] = known + value;
    else if (Array.isArray(known) && Array.isArray(value)) joined[name] = [...known, ...value];
    else joined[name] = value ?? known;
  }
  const calls = Array.isArray(message['tool_calls']) ? message['tool_calls'].map(asRecord) : [];
  for (const { index, ...piece } of Array.isArray(pieces) ? pieces.map(asRecord) : []) {
    const position = Number(index);
    const known = calls[position];
    calls[position] = known
      ? { ...known, function: joinPieces(known['function'], piece['function']) }
      : piece;
  }
  const { content } = joined;
  const isEmpty = calls.length > 0 || typeof joined['refusal'] === 'string';
  return {
    ...joined,
    role: 'assistant',
    content:
      typeof content === 'string' && (content !== '' || !isEmpty) ? content : isEmpty ? null : '',
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Joins the next arguments of a tool call to its function. */
function joinPieces(known: unknown, piece: unknown): Fields {
  const called = asRecord(known);
  return {
    ...called,
    arguments: asText(called['arguments']) + asText(asRecord(piece)['arguments']),
  };
}
