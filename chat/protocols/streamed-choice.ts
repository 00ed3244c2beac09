/**
 * One choice of an answer, assembled from the deltas that a provider sends. It numbers the tool
 * calls, sends them one after the other, and decides the finish reason.
 */
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import { errorFromEvent } from '../upstream-failures.ts';
import type { ExpectedResponse } from './protocol.ts';
import { parseCallPiece, StreamedCall, type CallPiece } from './streamed-call.ts';

/** Delta of a chunk in OpenAI's format. */
export type Delta = Record<string, unknown>;

/** Joins all output in a message or a delta: text, `refusal`, visible reasoning and tool calls. */
export function joinOutput(delta: Delta): string {
  const text =
    asText(delta['content']) + asText(delta['refusal']) + asText(delta['reasoning_content']);
  const calls = delta['tool_calls'];
  return Array.isArray(calls) ? text + calls.map(joinCallOutput).join('') : text;
}

function joinCallOutput(call: unknown): string {
  const { name, json } = parseCallPiece(call, 0);
  return name + json;
}

/** Providers' finish reasons by OpenAI's. Other reasons count as `stop`. */
const finishReasons: readonly [string, RegExp][] = [
  [
    'length',
    /^(length|max_(output_|completion_)?tokens|model_length|token_limit|model_context_window_exceeded)$/,
  ],
  ['tool_calls', /^(tool_calls?|tool_use|function_calls?)$/],
  [
    'content_filter',
    /^(content_?filter(ed)?|content_policy.*|refusal|safety|sensitive|recitation|blocklist|prohibited_content|spii|guardrail.*)$/,
  ],
  // These reasons mean that the provider did not finish the answer.
  [
    'error',
    /^(error|failed|network_error|aborted|malformed_function_call|insufficient_system_resource)$/,
  ],
];

function toFinishReason(reported: string): string {
  const name = reported.toLowerCase();
  return finishReasons.find(([, names]) => names.test(name))?.[0] ?? 'stop';
}

/** Returns the delta without the fields that a choice sends in its own form. */
function omitReplaced(delta: Delta): Delta {
  // Most deltas contain none of them, and need no copy.
  if (!('role' in delta || 'tool_calls' in delta || 'function_call' in delta)) return delta;
  const { role: _, tool_calls: _calls, function_call: _legacyCall, ...rest } = delta;
  return rest;
}

/** Choice that is being assembled. */
export class StreamedChoice {
  readonly #calls: StreamedCall[] = [];
  /** What the caller has not received, in order: calls, and deltas that follow an open call. */
  #waiting: (StreamedCall | Delta)[] = [];
  #sentCalls = 0;
  /** Length of the text that the caller has received, in UTF-16 units. */
  #sentText = 0;
  #reason: string | null = null;
  #hasRole = false;
  readonly #response: ExpectedResponse;

  constructor(response: ExpectedResponse) {
    this.#response = response;
  }

  /** True if the provider has reported a finish reason. */
  get isFinished(): boolean {
    return this.#reason !== null;
  }

  /** Finish reason in OpenAI's terms; an answer with a tool call that was not cut off has `tool_calls`. */
  get finishReason(): string | null {
    const reason = this.#reason;
    if (reason !== 'stop' && reason !== 'tool_calls') return reason;
    return this.#sentCalls > 0 ? 'tool_calls' : 'stop';
  }

  /** Records a finish reason. @throws GatewayError if it means that the provider failed */
  finish(reported: unknown): void {
    if (typeof reported !== 'string' || reported === '') return;
    this.#reason ??= toFinishReason(reported);
    if (this.#reason !== 'error') return;
    throw errorFromEvent({ code: reported });
  }

  /**
   * Adds a delta, and returns the deltas to send now.
   * @throws GatewayError if a piece of a tool call belongs to no call
   */
  add(added: Delta): Delta[] {
    const { tool_calls: calls, function_call: legacyCall } = added;
    const delta = omitReplaced(added);
    const hasOutput = joinOutput(delta) !== '' || Array.isArray(delta['reasoning_details']);
    const waits = hasOutput && this.#waiting.length > 0;
    if (waits) this.#waiting.push(delta);
    const isSent = !waits && (hasOutput || Object.keys(delta).length > 0);
    const deltas = isSent ? [hasOutput ? this.#place(delta) : delta] : [];
    const hasCalls = Array.isArray(calls) ? calls.length > 0 : Boolean(calls);
    const pieces = hasCalls ? calls : legacyCall && { index: 0, function: legacyCall };
    if (pieces) {
      for (const [position, piece] of [pieces].flat().entries())
        this.#addPiece(parseCallPiece(piece, position));
    }
    return this.#send(deltas, false);
  }

  /** Ends the last call with this index of the provider, and returns the deltas to send now. */
  stopCall(index: number): Delta[] {
    this.#findCall(index)?.stop();
    return this.#send([], false);
  }

  /** Ends the choice, and returns the remaining deltas. @throws GatewayError if a call has no name */
  end(): Delta[] {
    const deltas = this.#send(this.#hasRole ? [] : [{ content: '' }], true);
    this.#reason ??= 'stop';
    return deltas;
  }

  #findCall(index: number): StreamedCall | undefined {
    return this.#calls.findLast((call) => call.index === index);
  }

  #addPiece(piece: CallPiece): void {
    const { id, name, json } = piece;
    if (id === '' && name === '' && json === '' && Object.keys(piece.extra).length === 0) return;
    const call = this.#matchCall(piece);
    if (call) {
      call.add(piece);
      return;
    }
    // A second call with the id of another one gets its own id.
    const isTaken = id !== '' && this.#calls.some((other) => other.hasId(id));
    const added = new StreamedCall(piece, isTaken);
    added.add(piece);
    this.#calls.push(added);
    this.#waiting.push(added);
  }

  #matchCall(piece: CallPiece): StreamedCall | undefined {
    const { id, index } = piece;
    const withId = id === '' ? [] : this.#calls.filter((call) => call.hasId(id));
    const sameId = withId.findLast((call) => call.index === index) ?? withId.at(-1);
    if (sameId?.continuesById(piece)) return sameId;
    const sameIndex = this.#findCall(index);
    return !sameId && sameIndex?.continuesAtIndex(piece) ? sameIndex : undefined;
  }

  /** Returns the deltas, and what else can be sent. A call is followed by the next when it is whole. */
  #send(deltas: Delta[], isEnd: boolean): Delta[] {
    for (;;) {
      const first = this.#waiting[0];
      if (!first) break;
      if (first instanceof StreamedCall) {
        const next = this.#waiting[1];
        const ends = isEnd || first.isStopped || (next !== undefined && first.isWhole);
        this.#sendCall(first, deltas, ends);
        if (!ends) break;
      } else deltas.push(this.#place(first));
      this.#waiting.shift();
    }
    const [first] = deltas;
    if (!first || this.#hasRole) return deltas;
    // Clients require the role in the first delta, and some of them join repeated ones.
    this.#hasRole = true;
    return [{ role: 'assistant', ...first }, ...deltas.slice(1)];
  }

  #sendCall(call: StreamedCall, deltas: Delta[], ends: boolean): void {
    const isHead = !call.hasHead;
    const piece = call.take(this.#sentCalls, ends);
    if (!piece) return;
    if (isHead) {
      this.#sentCalls += 1;
      piece['content_offset'] = this.#sentText;
      const called = asRecord(piece['function']);
      const { name } = called;
      called['name'] = this.#response.callerNames?.get(asText(name)) ?? name;
    }
    const last = deltas.at(-1);
    if (!last) deltas.push({ tool_calls: [piece] });
    else if (Array.isArray(last['tool_calls'])) last['tool_calls'].push(piece);
    else last['tool_calls'] = [piece];
  }

  /**
   * Adds to each thought its provider, which alone can verify it, and its place among the calls and
   * in the text. A later request needs the parts of an answer in the order in which they were made.
   */
  #place(delta: Delta): Delta {
    const { content, reasoning_details: details } = delta;
    const offset = this.#sentText;
    this.#sentText += asText(content).length;
    if (!Array.isArray(details)) return delta;
    const place = { tool_call_index: this.#sentCalls, content_offset: offset };
    const placed = details
      .filter(isRecord)
      .map((detail) => ({ ...detail, provider: this.#response.provider, ...place }));
    return { ...delta, reasoning_details: placed };
  }
}
