/** Prices that depend on an input: the input is measured before anything is reserved. */
import { InputUnreadable, type InputMeter } from '../../activities/storage/input-meter.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { DraftPlan, MeasuredPrice } from '../../studio/capability.ts';

/**
 * The plan with all prices known; each input is measured once.
 * @throws GatewayError INVALID_INPUT_URL naming the field, or what the price's own limits refuse
 */
export async function measurePrices(meter: InputMeter, draft: DraftPlan): Promise<DraftPlan> {
  const measures = new Map<string, ReturnType<InputMeter['measure']>>();

  async function usdOf(price: number | MeasuredPrice): Promise<number> {
    if (typeof price === 'number') return price;
    const { url } = price.input;
    const measured = measures.get(url) ?? meter.measure(url, price.input.medium);
    measures.set(url, measured);
    try {
      return price.usdOf(await measured);
    } catch (error) {
      if (!(error instanceof InputUnreadable)) throw error;
      if (price.usdOfUnknown !== undefined) return price.usdOfUnknown;
      const { field: path } = price.input;
      throw new GatewayError('INVALID_INPUT_URL', `${path}: ${error.message}`, {
        details: [{ path, message: error.message }],
      });
    }
  }

  const calls = await Promise.all(
    draft.calls.map(async (call) => ({ ...call, unitPriceUsd: await usdOf(call.unitPriceUsd) })),
  );
  return { ...draft, calls };
}
