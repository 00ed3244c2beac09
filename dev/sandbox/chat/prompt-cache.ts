/** Simulates a provider's prompt cache. */
import { createHash } from 'node:crypto';
import { countTokens } from './script.ts';

const promptsMax = 10_000;

/** Cache of the prompts sent to one provider. */
export class PromptCache {
  readonly #seen = new Set<string>();

  /**
   * Looks up the beginning of a prompt; returns how many of its tokens are read from the cache, and how many are added to it.
   */
  lookUp(beginning: string): { read: number; write: number } {
    const tokens = countTokens(beginning);
    if (tokens === 0) return { read: 0, write: 0 };
    const digest = createHash('sha256').update(beginning).digest('base64');
    if (this.#seen.has(digest)) return { read: tokens, write: 0 };
    if (this.#seen.size < promptsMax) this.#seen.add(digest);
    return { read: 0, write: tokens };
  }
}
