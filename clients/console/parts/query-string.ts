/** Values stored in the query string of the URL, so that a view can be shared and reloaded. */
import { useSearchParams } from 'wouter';

/** Returns the query string, and a function that sets a value, or removes it if it is empty. */
export function useQueryString(): [URLSearchParams, (name: string, value: string) => void] {
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

/** Returns the values for the given names in the query string, without missing and empty ones. */
export function pickValues(search: URLSearchParams, names: readonly string[]) {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = search.get(name);
      return value ? [[name, value]] : [];
    }),
  );
}

/** Converts a date, e.g. `2026-11-22`, to the start of that day in UTC. Returns '' for ''. */
export const toStartOfDay = (date: string): string => date && `${date}T00:00:00Z`;
