/** Requests about several inputs, each settled on its own: one that cannot be used does not refuse the others. */
import { GatewayError, refusedFields } from '../../domain/errors.ts';
import type { DraftPlan, RefusedItems } from '../../studio/capability.ts';

/**
 * The draft without the items whose inputs an error names, with what is said of them.
 * @throws the error, where it is about more than items, or no item would be left
 */
export function withoutItems(draft: DraftPlan, error: unknown): DraftPlan {
  const details = (error instanceof GatewayError && error.details) || [];
  const known = draft.refusedItems ?? {};
  // Each step of an item says the same of its input.
  if (details.length > 0 && details.every(({ path }) => known[path])) return draft;
  const inputs = draft.inputs ?? [];
  const refused: RefusedItems = { ...known };
  for (const { path, message } of details) {
    refused[path] = { code: error instanceof GatewayError ? error.code : '', message };
  }
  const isRefused = ({ field }: { field: string }): boolean => refused[field] !== undefined;
  if (!draft.itemized || !inputs.some(isRefused)) throw error;
  if (inputs.every(isRefused)) {
    const all = Object.entries(refused).map(([path, { message }]) => ({ path, message }));
    throw refusedFields('INVALID_INPUT_URL', all);
  }
  const steps = draft.calls.length / inputs.length;
  const kept = [...draft.calls.entries()].filter(([index]) => {
    const input = inputs[Math.floor(index / steps)];
    return input !== undefined && !isRefused(input);
  });
  const places = new Map(kept.map(([index], place) => [index, place]));
  return {
    ...draft,
    refusedItems: refused,
    inputs: inputs.filter((input) => !isRefused(input)),
    calls: kept.map(([, call]) => ({
      ...call,
      ...(call.inputFrom && {
        inputFrom: {
          ...call.inputFrom,
          callIndex: places.get(call.inputFrom.callIndex) ?? 0,
        },
      }),
    })),
  };
}
