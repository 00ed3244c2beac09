/**
 * Faults that tests and users can request: by a marker in a prompt, or by a rule sent to `POST /_sandbox/faults`. A
 * marker is `[[name:argument]]`, optionally with `x2` (twice) and `;option=value`, e.g.
 * `[[submit:503x2;retry-after=2]]`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Exchange } from './http.ts';

/** Names of all faults. Each comment shows an argument or explains the effect. */
const faultNames = [
  // Faults when a request is submitted. With the first three the provider accepts nothing; with the others it accepts
  // the request.
  'submit', // submit:503x2;retry-after=2 responds twice with 503; retry-after=date:2 sends an HTTP date
  'reset-before-accept', // closes the connection
  'concurrency', // concurrency:2 responds with 429 while two calls are in flight; not for fal
  'reset-after-accept', // accepts, then resets the connection
  'hang-submit', // accepts and never responds
  'malformed-submit', // accepts and responds with incomplete JSON
  'proxy-error', // proxy-error:502 accepts and responds with the error page of a proxy
  // Faults while the result is generated.
  'slow', // slow:20s, slow:500ms; the wait of a chat or of a queued request ends when the faults are cleared
  'fail', // fail:422;type=image_too_small fails with an error of the model
  'policy', // the content filter rejects the request
  'fail-result', // fail-result:504 fails with an error of the platform
  'partial', // partial:2 returns two images, regardless of the requested number
  'silent-film', // a video without sound, even if sound was requested
  'short-film', // short-film:2 returns a video of two seconds
  'small-media', // small-media:2 halves width and height
  'long-recording', // long-recording:30 transcribes a recording as if it lasted 30 seconds
  'ignore-cancel', // acknowledges a cancellation but still finishes
  // Faults when the status or the result is fetched.
  'status', // status:500x3 responds with 500 to three polls
  'result', // result:502x1 responds with 502 to one fetch
  'malformed-result', // incomplete JSON
  // Faults of the webhook.
  'no-webhook',
  'early-webhook', // sent before the response to the submitted request
  'late-webhook', // late-webhook:3s after the end
  'bad-signature',
  // Faults of the media files.
  'dead-url', // 404
  'private-url', // the result points to 169.254.169.254
  'truncated-media', // closes the connection after half; with :silent, half is sent as a complete file
  'empty-media',
  'big', // big:200mb appends 200 MB of padding, which players skip, to a video
  'wrong-type-media', // HTML with the content type of an image
  // Faults of chats.
  'words', // words:500;size=20 responds with 500 words of 20 characters
  'stream-cut', // stream-cut:5 closes the connection after five chunks; with ;end=clean, without an error
  'stream-error', // stream-error:3 sends an error event after three chunks
  'slow-chunks', // slow-chunks:200ms before each chunk
  'no-usage', // reports no token usage
  'counted-input', // counted-input:100000 reports 100,000 input tokens
  'lying-usage', // multiplies the reported usage by 10; by -1 with lying-usage:-1
  'tool-rounds', // tool-rounds:2 calls tools in two successive messages before it responds
  'parallel-calls', // parallel-calls:2 calls a tool twice in one message
  'tool', // tool:Write;file_path=a.txt;content=hi calls a tool with these fields, one marker for each message before it responds
  'preface', // writes a sentence before its tool calls
  'answer', // answer:calls-at-index-zero sends an answer that differs from the documentation (chat/odd-….ts)
] as const;

/** Name of a fault. */
export type FaultName = (typeof faultNames)[number];

/** Fault as it is written to the log. */
export const faultSchema = z.object({
  name: z.enum(faultNames),
  /** Argument after the colon: a status, a duration or a count. */
  argument: z.string(),
  /** How often the fault occurs; null for always. */
  times: z.number().nullable(),
  options: z.record(z.string(), z.string()),
  /** Key of the count of occurrences; faults with the same key share a count. */
  countKey: z.string(),
});

export type Fault = z.infer<typeof faultSchema>;

/** Body of `POST /_sandbox/faults`. */
export interface FaultRule {
  /** Substring of the endpoint id or of the request body as JSON. Omit to match every request. */
  match?: string | undefined;
  faults: string;
  /** Number of requests to which the rule applies. Omit for all. */
  times?: number | undefined;
}

const markerPattern = /\[\[([^[\]]+)\]\]/g;
const faultPattern = /^([a-z]+(?:-[a-z]+)*)(?::([^;]*?))?(?:x(\d+))?\s*(?:;(.*))?$/s;
const countKeysMax = 20_000;

function isFaultName(name: string): name is FaultName {
  return (faultNames as readonly string[]).includes(name);
}

function parseOptions(text: string | undefined): Record<string, string> {
  const pairs = (text ?? '').split(';').filter((part) => part.trim() !== '');
  return Object.fromEntries(
    pairs.map((part) => {
      const [name = '', value = ''] = part.split(/=(.*)/s);
      return [name.trim(), value.trim()];
    }),
  );
}

function parseFault(text: string, countScope: string): Fault | undefined {
  const match = faultPattern.exec(text.trim());
  const name = match?.[1];
  if (!match || name === undefined || !isFaultName(name)) return undefined;
  return {
    name,
    argument: (match[2] ?? '').trim(),
    times: match[3] === undefined ? null : Number(match[3]),
    options: parseOptions(match[4]),
    countKey: `${countScope}|${text}`,
  };
}

/** Parses the fault markers in a string. Markers with unknown names are ignored. */
function parseMarkers(text: string, countScope: string): Fault[] {
  if (!text.includes('[[')) return [];
  return [...text.matchAll(markerPattern)]
    .map((match) => parseFault(match[1] ?? '', countScope))
    .filter((fault) => fault !== undefined);
}

/** Removes the fault markers from a string. */
export function withoutMarkers(text: string): string {
  return text
    .replaceAll(markerPattern, (marker, inner: string) => (parseFault(inner, '') ? '' : marker))
    .trim();
}

/** Parses the faults of a rule: markers, or the same without brackets, separated by spaces. */
function parseRule(text: string, countScope: string): Fault[] {
  const parts = text.includes('[[')
    ? [...text.matchAll(markerPattern)].map((match) => match[1] ?? '')
    : text.split(/\s+/).filter((part) => part !== '');
  return parts.map((part) => {
    const fault = parseFault(part, countScope);
    if (!fault) throw new RangeError(`unknown fault "${part}"`);
    return fault;
  });
}

/** Finds a fault by name. */
export function findFault(faults: readonly Fault[], name: FaultName): Fault | undefined {
  return faults.find((fault) => fault.name === name);
}

/** Parses `20s`, `500ms` or `3` (seconds) to milliseconds; returns the fallback if it is none of these. */
export function parseDurationMs(argument: string, fallbackMs: number): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s)?$/.exec(argument);
  if (!match) return fallbackMs;
  return Math.round(Number(match[1]) * (match[2] === 'ms' ? 1 : 1000));
}

/** Returns the `Retry-After` header for a fault with the option `retry-after=2`, or `retry-after=date:2` for an HTTP date. */
export function retryAfterHeader({ options }: Fault): Record<string, string> {
  const text = options['retry-after'];
  if (text === undefined) return {};
  const date = /^date:(\d+)$/.exec(text);
  const after = date ? new Date(Date.now() + Number(date[1]) * 1000).toUTCString() : text;
  return { 'Retry-After': after };
}

/** Applies a fault to the bytes of a media file: none, an HTML page, or the first half. */
export function applyMediaFault(bytes: Buffer, faults: readonly Fault[]): Buffer {
  if (findFault(faults, 'empty-media')) return Buffer.alloc(0);
  if (findFault(faults, 'wrong-type-media')) return errorPage;
  const isHalf = findFault(faults, 'truncated-media')?.argument === 'silent';
  return isHalf ? firstHalf(bytes) : bytes;
}

/** Returns the first half of the bytes, which is sent before the connection closes. */
export function firstHalf(bytes: Buffer): Buffer {
  return bytes.subarray(0, Math.floor(bytes.length / 2));
}

const errorPage = Buffer.from('<!doctype html><title>Error</title><h1>Bad gateway</h1>');

/** Responds with the error page of a proxy, which does not tell whether the provider accepted the request. */
export function sendErrorPage({ response }: Exchange, fault: Fault): void {
  response.writeHead(Number(fault.argument || 500), {
    'Content-Type': 'text/html',
    ...retryAfterHeader(fault),
  });
  response.end('<!doctype html><title>Error</title><h1>Temporarily unavailable</h1>');
}

/** Responds with truncated JSON. */
export function sendHalfJson({ response }: Exchange, half: string): void {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.end(half);
}

interface ActiveRule {
  match: string;
  faults: Fault[];
  remaining: number;
}

/** Rules set by `POST /_sandbox/faults`, and counts of the faults that have occurred. */
export class FaultBook {
  #rules: ActiveRule[] = [];
  #nextRuleId = 1;
  readonly #counts = new Map<string, number>();
  #cleared = new AbortController();
  #clearedAtMs = 0;

  /**
   * Adds a rule.
   * @throws RangeError if the rule has an unknown fault
   */
  add({ match, faults, times }: FaultRule): void {
    const scope = `rule ${this.#nextRuleId}`;
    this.#nextRuleId += 1;
    const parsed = parseRule(faults, scope);
    this.#rules.push({ match: match ?? '', faults: parsed, remaining: times ?? Infinity });
  }

  /** Removes all rules and counts, and ends all waits. */
  clear(): void {
    this.#rules = [];
    this.#counts.clear();
    this.#clearedAtMs = Date.now();
    this.#cleared.abort();
    this.#cleared = new AbortController();
  }

  /**
   * Waits until the delay has passed or the faults are cleared. Returns at once if they were cleared
   * after the request arrived. @throws if the signal aborts
   */
  async wait(delayMs: number, arrivedAtMs: number, signal?: AbortSignal): Promise<void> {
    if (arrivedAtMs <= this.#clearedAtMs) return;
    const cleared = this.#cleared.signal;
    const ends = signal ? AbortSignal.any([cleared, signal]) : cleared;
    try {
      await sleep(delayMs, undefined, { signal: ends });
    } catch (error) {
      if (!cleared.aborted) throw error;
    }
  }

  /** Returns the faults of a submitted request; decreases the remaining number of each matching rule. */
  forSubmit(endpointId: string, body: unknown, prompt: string): Fault[] {
    const fromMarkers = parseMarkers(prompt, `${endpointId}|${prompt}`);
    if (this.#rules.length === 0) return fromMarkers;
    const text = `${endpointId}\n${JSON.stringify(body)}`;
    const fromRules: Fault[] = [];
    for (const rule of this.#rules) {
      if (rule.remaining <= 0 || !text.includes(rule.match)) continue;
      rule.remaining -= 1;
      fromRules.push(...rule.faults);
    }
    return [...fromMarkers, ...fromRules];
  }

  /**
   * Returns the named fault and counts the occurrence. Undefined if the fault is absent or has occurred `times` times.
   */
  takeFault(faults: readonly Fault[], name: FaultName, scope = ''): Fault | undefined {
    const fault = findFault(faults, name);
    if (!fault || fault.times === null) return fault;
    const key = `${scope}|${fault.countKey}`;
    const count = this.#counts.get(key) ?? 0;
    if (count >= fault.times) return undefined;
    this.#counts.delete(key);
    this.#counts.set(key, count + 1);
    const oldest = this.#counts.keys().next().value;
    if (this.#counts.size > countKeysMax && oldest !== undefined) this.#counts.delete(oldest);
    return fault;
  }

  /** Applies faults to the response of an accepted request. Returns true if no other response may follow. */
  breakResponse(exchange: Exchange, faults: readonly Fault[], half?: string): boolean {
    if (this.takeFault(faults, 'hang-submit')) return true;
    if (this.takeFault(faults, 'reset-after-accept')) {
      exchange.request.socket.resetAndDestroy();
      return true;
    }
    const page = this.takeFault(faults, 'proxy-error');
    if (page) sendErrorPage(exchange, page);
    else if (half === undefined || !this.takeFault(faults, 'malformed-submit')) return false;
    else sendHalfJson(exchange, half);
    return true;
  }
}
