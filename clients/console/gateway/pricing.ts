/** Prices in credits and US dollars. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { unwrap, api } from './client.ts';

/** Query for the gateway's price list. */
export const pricingQuery = queryOptions({
  queryKey: ['pricing'],
  queryFn: () => unwrap(api.GET('/api/v1/pricing')),
  staleTime: Infinity,
});

/** Returns a function that converts credits to US dollars, or null until the prices are loaded. */
export function useUsdPrice(): ((credits: number) => number) | null {
  const { data } = useQuery(pricingQuery);
  return data ? (credits) => credits * data.usdPerCredit : null;
}
