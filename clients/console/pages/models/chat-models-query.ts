/** Queries for the chat models and their prices. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { pricingQuery } from '../../gateway/pricing.ts';

type Model = Schemas['ListModelsAnswer']['models'][number];

/** Query for all chat models, with the caller's prices in US dollars. */
export const chatModelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: () => unwrap(api.GET('/api/v1/models')),
  staleTime: Infinity,
});

/** Price of a chat model in credits per million tokens. */
export type ChatPrice = Pick<Model['cost'], 'input' | 'output' | 'longInput'>;

/** Returns the caller's prices by model; null until they are loaded. `enabled`: whether the key may list models. */
export function useChatPrices(enabled = true): ReadonlyMap<string, ChatPrice> | null {
  const { data } = useQuery({ ...chatModelsQuery, enabled });
  const { data: pricing } = useQuery(pricingQuery);
  if (!data || !pricing) return null;
  const { usdPerCredit } = pricing;
  const toCredits = (usd: number): number => Number((usd / usdPerCredit).toPrecision(12));
  const prices = data.models.map(({ id, cost: { input, output, longInput } }) => {
    const price = { input: toCredits(input), output: toCredits(output) };
    const long = longInput && {
      ...longInput,
      input: toCredits(longInput.input),
      output: toCredits(longInput.output),
    };
    return [id, { ...price, ...(long && { longInput: long }) }] as const;
  });
  return new Map(prices);
}
