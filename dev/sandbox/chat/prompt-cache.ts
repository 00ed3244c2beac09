/** Prompts that a provider has seen, so that it reads them from a cache the next time. */
import { createHash } from 'node:crypto';
import { countTokens } from './script.ts';

const promptsMax = 10_000;

/** Cache of the prompts of one provider. */
export class PromptCache {
  readonly #seen = new Set<string>();

  /** Returns how many tokens of a prompt's beginning are in the cache, and how many are written to it now. */
  lookUp(beginning: string): { read: number; write: number } {
    const tokens = countTokens(beginning);
    if (tokens === 0) return { read: 0, write: 0 };
    const digest = createHash('sha256').update(beginning).digest('base64');
    if (this.#seen.has(digest)) return { read: tokens, write: 0 };
    if (this.#seen.size < promptsMax) this.#seen.add(digest);
    return { read: 0, write: tokens };
  }
}
