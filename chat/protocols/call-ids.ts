/**
 * Maps the ids of tool calls to ids that a provider accepts. A conversation may contain ids of
 * another provider, such as `functions.write:0` of Moonshot AI.
 */
import { createHash } from 'node:crypto';

/** Rule of a provider for the ids of tool calls. */
export interface CallIdRule {
  /** Pattern of the ids that the provider accepts. */
  valid: RegExp;
  /** Beginning of each mapped id. */
  prefix: string;
  /** Length of each mapped id. */
  length: number;
}

/**
 * Rules of the protocols and providers. Sources: the errors of their APIs.
 */
export const callIdRules = {
  /** `tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`. */
  anthropic: { valid: /^[\w-]+$/, prefix: 'toolu_', length: 30 },
  /** `tool_calls[0].id: string too long. Expected a string with maximum length 40`. */
  openai: { valid: /^.{1,40}$/su, prefix: 'call_', length: 29 },
  /** `Tool call id must be a-z, A-Z, 0-9, with a length of 9`. */
  mistral: { valid: /^[a-zA-Z0-9]{9}$/, prefix: '', length: 9 },
} as const satisfies Record<string, CallIdRule>;

/**
 * Ids of the tool calls of one conversation. Valid ids stay as they are, others become a hash. Each
 * call has an id of its own: a provider that numbers its calls anew in each answer repeats ids.
 */
export class CallIds {
  readonly #rule: CallIdRule;
  /** Number of calls so far, by the caller's id. */
  readonly #counts = new Map<string, number>();
  /** Mapped ids of the calls without a result so far, by the caller's id. */
  readonly #open = new Map<string, string[]>();

  constructor(rule: CallIdRule) {
    this.#rule = rule;
  }

  /** Returns the id of the next call with this id. */
  ofCall(id: string): string {
    const count = this.#counts.get(id) ?? 0;
    this.#counts.set(id, count + 1);
    const mapped = this.#map(id, count);
    this.#open.set(id, [...(this.#open.get(id) ?? []), mapped]);
    return mapped;
  }

  /** Returns the id of the call to which the next result with this id belongs. */
  ofResult(id: string): string {
    return this.#open.get(id)?.shift() ?? this.#map(id, (this.#counts.get(id) ?? 1) - 1);
  }

  #map(id: string, repetition: number): string {
    const { valid, prefix, length } = this.#rule;
    if (repetition === 0 && valid.test(id)) return id;
    const hash = createHash('sha512').update(`${repetition} ${id}`).digest('base64');
    return prefix + hash.replaceAll(/[+/=]/g, '').slice(0, length - prefix.length);
  }
}
