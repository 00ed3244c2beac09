/** Prices that depend on an input: the input is copied and measured before anything is reserved. */
import {
  type RequestCopies,
  InputUnreadable,
  type InputMeter,
} from '../../activities/inputs/measured-inputs.ts';
import { referencedKey, substituteInputs } from '../../activities/inputs/inputs.ts';
import { assert } from '../../domain/assert.ts';
import { fieldError } from '../../domain/errors.ts';
import { withoutItems } from './refused-items.ts';
import type { DraftCall, DraftPlan, InputFacts } from '../../studio/capability.ts';

interface MeasuringDeps {
  meter: InputMeter;
  copies: RequestCopies;
}

/**
 * The plan with all prices known; each input is copied, if it is not ours, and measured once, and is
 * named in the calls by what was measured. Where each input is an item, one that is refused is left out.
 * @throws GatewayError INVALID_INPUT_URL naming the field, or what the price's own limits refuse
 */
export async function measurePrices(
  { meter, copies }: MeasuringDeps,
  draft: DraftPlan,
): Promise<DraftPlan> {
  const measures = new Map<string, Promise<InputFacts>>();
  /** What the provider is to be given: the objects that were measured. */
  const references = new Map<string, string>();

  async function measure(url: string, medium: 'image' | 'video'): Promise<InputFacts> {
    const reference = referencedKey(url) === null ? await copies.keep(url, medium) : url;
    const storageKey = referencedKey(reference);
    assert(storageKey !== null, 'what was copied is in the storage');
    const facts = await meter.measure(storageKey, medium);
    references.set(url, reference);
    return facts;
  }

  async function priced(call: DraftCall): Promise<DraftCall> {
    const { unitPriceUsd: price } = call;
    if (typeof price === 'number') return call;
    const { url } = price.input;
    const measuring = measures.get(url) ?? measure(url, price.input.medium);
    measures.set(url, measuring);
    try {
      const facts = await measuring;
      const { quantity = call.quantity, expected, variants } = price.outputOf(facts);
      const output = { ...call.output, expected };
      return { ...call, quantity, output, variants, unitPriceUsd: price.usdOf(facts) };
    } catch (error) {
      if (!(error instanceof InputUnreadable)) throw error;
      const { field: path } = price.input;
      throw fieldError('INVALID_INPUT_URL', path, error.message);
    }
  }

  const ends = await Promise.allSettled(draft.calls.map(priced));
  const calls = draft.calls.map((call, index) => {
    const end = ends[index];
    return end?.status === 'fulfilled' ? end.value : call;
  });
  let left: DraftPlan = { ...draft, calls };
  for (const end of ends) if (end.status === 'rejected') left = withoutItems(left, end.reason);
  return substituteInputs(left, references);
}
