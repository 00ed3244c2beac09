/**
 * Faults on request. A marker in a prompt, `[[name:argument x times ; option=value]]`, or a rule of
 * `POST /_sandbox/faults` causes one fault.
 */
import { z } from 'zod';
import type { Exchange } from './http.ts';

/** All faults. A status may have options: `submit:429x1;retry-after=2`. */
const faultNames = [
  // Faults of the submit. With the first three, nothing is accepted; with the others, everything.
  'submit', // submit:503x2 answers this status; retry-after=2 or retry-after=date:2 (HTTP date)
  'reset-before-accept', // destroys the socket
  'concurrency', // concurrency:2 = 429 while two calls are in flight (providers that answer at once)
  'reset-after-accept', // accepts, then destroys the socket
  'hang-submit', // accepts and never answers
  'malformed-submit', // accepts and answers half a JSON
  'proxy-error', // proxy-error:502 accepts and answers the error page of something in between
  // Faults of the generation.
  'slow', // slow:20s, slow:500ms
  'fail', // fail:422 = a model error; fail:422;type=image_too_small
  'policy', // the content filter's refusal
  'fail-result', // fail-result:504 = a platform error
  'partial', // partial:2 = two pictures, however many were asked for
  'silent-film', // a film without sound, whatever was asked for
  'short-film', // short-film:2 = a film of two seconds
  'small-media', // small-media:2 = half as wide and half as high
  'ignore-cancel', // acknowledges a cancel and finishes all the same
  // Faults of status and result.
  'status', // status:500x3 answers three polls so
  'result', // result:502x1 answers one fetch so
  'malformed-result', // half a JSON
  // Faults of the webhook.
  'no-webhook',
  'early-webhook', // sent before the submit is answered
  'late-webhook', // late-webhook:3s after the end
  'dup-webhook', // dup-webhook:5
  'bad-signature',
  // Faults of the files.
  'dead-url', // 404
  'private-url', // the result points to 169.254.169.254
  'truncated-media', // breaks off at half; truncated-media:silent claims half to be all
  'empty-media',
  'big', // big:200mb = a film followed by so much padding that a player skips
  'wrong-type-media', // HTML called a picture
  // Faults of chats.
  'words', // words:500;size=20 answers with that many words, each of that length
  'stream-cut', // stream-cut:5 cuts the connection after five chunks; ;end=clean ends it as if all was said
  'stream-error', // stream-error:3 sends an error event after three chunks
  'slow-chunks', // slow-chunks:200ms before each chunk
  'no-usage',
  'counted-input', // counted-input:100000 = so many tokens of input, whatever they were
  'lying-usage', // ten times the truth; lying-usage:-1 = that many times
  'tool-rounds', // tool-rounds:2 calls tools twice, one after the other, before it answers
  'parallel-calls', // parallel-calls:2 calls a tool twice at once
  'preface', // writes a sentence before its tool calls
] as const;

/** The name of a fault. */
export type FaultName = (typeof faultNames)[number];

/** Fault, as the log keeps it. */
export const faultSchema = z.object({
  name: z.enum(faultNames),
  /** Argument after the colon: a status, a duration or a count. */
  argument: z.string(),
  /** Number of times that it occurs; `null`: always. */
  times: z.number().nullable(),
  options: z.record(z.string(), z.string()),
  /** Key of its count: faults with the same key share one count. */
  countKey: z.string(),
});

/** Fault of a request. */
export type Fault = z.infer<typeof faultSchema>;

/** Rule of the admin endpoint. */
export interface FaultRule {
  /** Substring of the endpoint id or of the request body's JSON; absent: every submit. */
  match?: string | undefined;
  faults: string;
  /** Number of submits to which it applies; absent: all. */
  times?: number | undefined;
}

const markerPattern = /\[\[([^[\]]+)\]\]/g;
const faultPattern = /^([a-z]+(?:-[a-z]+)*)(?::([^;]*?))?(?:x(\d+))?\s*(?:;(.*))?$/;
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

/** Returns the faults marked in a text; markers with unknown names are ordinary text. */
function parseMarkers(text: string, countScope: string): Fault[] {
  if (!text.includes('[[')) return [];
  return [...text.matchAll(markerPattern)]
    .map((match) => parseFault(match[1] ?? '', countScope))
    .filter((fault) => fault !== undefined);
}

/** Returns the text without its fault markers. */
export function withoutMarkers(text: string): string {
  return text
    .replaceAll(markerPattern, (marker, inner: string) => (parseFault(inner, '') ? '' : marker))
    .trim();
}

/** Parses the markers of an admin rule, which may also be without brackets, separated by spaces. */
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

/** Returns the fault with this name among a request's faults. */
export function findFault(faults: readonly Fault[], name: FaultName): Fault | undefined {
  return faults.find((fault) => fault.name === name);
}

/** Returns the milliseconds of `20s`, `500ms` or `3` (seconds), or the fallback. */
export function durationMs(argument: string, fallbackMs: number): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s)?$/.exec(argument);
  if (!match) return fallbackMs;
  return Math.round(Number(match[1]) * (match[2] === 'ms' ? 1 : 1000));
}

/**
 * Returns the `Retry-After` of a fault: `retry-after=2`, or `retry-after=date:2` as an HTTP date.
 */
export function retryAfterOf({ options }: Fault): Record<string, string> {
  const text = options['retry-after'];
  if (text === undefined) return {};
  const date = /^date:(\d+)$/.exec(text);
  const after = date ? new Date(Date.now() + Number(date[1]) * 1000).toUTCString() : text;
  return { 'Retry-After': after };
}

/** Returns the media bytes, changed by a fault: empty, an HTML page, or half of them. */
export function spoil(bytes: Buffer, faults: readonly Fault[]): Buffer {
  if (findFault(faults, 'empty-media')) return Buffer.alloc(0);
  if (findFault(faults, 'wrong-type-media')) return errorPage;
  const isHalf = findFault(faults, 'truncated-media')?.argument === 'silent';
  return isHalf ? firstHalf(bytes) : bytes;
}

/** Returns the part that is sent before the connection closes. */
export function firstHalf(bytes: Buffer): Buffer {
  return bytes.subarray(0, Math.floor(bytes.length / 2));
}

const errorPage = Buffer.from('<!doctype html><title>Error</title><h1>Bad gateway</h1>');

/** Error page of a proxy between caller and provider, which tells nothing about the request. */
export function answerErrorPage({ response }: Exchange, fault: Fault): void {
  response.writeHead(Number(fault.argument || 500), {
    'Content-Type': 'text/html',
    ...retryAfterOf(fault),
  });
  response.end('<!doctype html><title>Error</title><h1>Temporarily unavailable</h1>');
}

/** Truncated JSON. */
export function answerHalfJson({ response }: Exchange, half: string): void {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.end(half);
}

interface ActiveRule {
  match: string;
  faults: Fault[];
  remaining: number;
}

/** Active faults: rules of the admin endpoint, and counts of the faults that occurred. */
export class FaultBook {
  #rules: ActiveRule[] = [];
  #nextRuleId = 1;
  readonly #strikes = new Map<string, number>();

  /**
   * Adds a rule.
   * @throws RangeError if it names an unknown fault
   */
  add({ match, faults, times }: FaultRule): void {
    const scope = `rule ${this.#nextRuleId}`;
    this.#nextRuleId += 1;
    const parsed = parseRule(faults, scope);
    this.#rules.push({ match: match ?? '', faults: parsed, remaining: times ?? Infinity });
  }

  /** Removes all rules and counts. */
  clear(): void {
    this.#rules = [];
    this.#strikes.clear();
  }

  /** Returns the faults of one submit; the count of each matching rule decreases by one. */
  forSubmit(endpointId: string, body: unknown, prompt: string): Fault[] {
    const marked = parseMarkers(prompt, `${endpointId}|${prompt}`);
    if (this.#rules.length === 0) return marked;
    const text = `${endpointId}\n${JSON.stringify(body)}`;
    const ruled: Fault[] = [];
    for (const rule of this.#rules) {
      if (rule.remaining <= 0 || !text.includes(rule.match)) continue;
      rule.remaining -= 1;
      ruled.push(...rule.faults);
    }
    return [...marked, ...ruled];
  }

  /** Returns the fault with this name if it occurs now: always, or while its count lasts. */
  struck(faults: readonly Fault[], name: FaultName, scope = ''): Fault | undefined {
    const fault = findFault(faults, name);
    if (!fault || fault.times === null) return fault;
    const key = `${scope}|${fault.countKey}`;
    const struck = this.#strikes.get(key) ?? 0;
    if (struck >= fault.times) return undefined;
    this.#strikes.delete(key);
    this.#strikes.set(key, struck + 1);
    const oldest = this.#strikes.keys().next().value;
    if (this.#strikes.size > countKeysMax && oldest !== undefined) this.#strikes.delete(oldest);
    return fault;
  }

  /**
   * Applies faults to the response of an accepted submit; returns true if no other response may
   * follow.
   */
  breakAnswer(exchange: Exchange, faults: readonly Fault[], half?: string): boolean {
    if (this.struck(faults, 'hang-submit')) return true;
    if (this.struck(faults, 'reset-after-accept')) {
      exchange.request.socket.destroy();
      return true;
    }
    const page = this.struck(faults, 'proxy-error');
    if (page) answerErrorPage(exchange, page);
    else if (half === undefined || !this.struck(faults, 'malformed-submit')) return false;
    else answerHalfJson(exchange, half);
    return true;
  }
}
