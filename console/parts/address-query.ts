/** Values in the query of the address, so that a view can be shared and reloaded. */
import { useSearchParams } from 'wouter';

/** Returns the query of the address, and a function that changes a value; empty: removed. */
export function useAddressQuery(): [URLSearchParams, (name: string, value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const change = (name: string, value: string): void =>
    setSearch(
      (query) => {
        if (value === '') query.delete(name);
        else query.set(name, value);
        return query;
      },
      { replace: true },
    );
  return [search, change];
}

/** Returns the named values that the query has. */
export function pickValues(search: URLSearchParams, names: readonly string[]) {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = search.get(name);
      return value ? [[name, value]] : [];
    }),
  );
}

/** Converts the value of a date field to the start of the day in UTC; empty stays empty. */
export const startOfDay = (date: string): string => date && `${date}T00:00:00Z`;
