/** The price of a credit in money. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { answered, api } from './client.ts';

/** Price list of the gateway. */
export const pricingQuery = queryOptions({
  queryKey: ['pricing'],
  queryFn: () => answered(api.GET('/api/v1/pricing')),
  staleTime: Infinity,
});

/**
 * Returns a function that converts credits to US dollars; null until the price list has arrived.
 */
export function useUsdOf(): ((credits: number) => number) | null {
  const { data } = useQuery(pricingQuery);
  return data ? (credits) => credits * data.usdPerCredit : null;
}
