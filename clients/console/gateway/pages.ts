/** Reads lists that the API returns in pages. */
import { useInfiniteQuery, type QueryKey } from '@tanstack/react-query';

interface Page<Item> {
  data: Item[];
  nextCursor: string | null;
}

interface PagesOptions<Item> {
  queryKey: QueryKey;
  /** Requests a page. `query` contains its cursor, and is empty for the first page. */
  read: (query: { cursor?: string }) => Promise<Page<Item>>;
  /** Returns the delay in milliseconds before the list is reloaded, or false to never reload it. */
  refreshMs?: (items: readonly Item[]) => number | false;
}

/** Returns the items of all loaded pages, and a function that loads the next page. */
export function usePages<Item>({ queryKey, read, refreshMs }: PagesOptions<Item>) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey,
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) => read(cursor === null ? {} : { cursor }),
    getNextPageParam: ({ nextCursor }) => nextCursor,
    refetchInterval: ({ state }) =>
      refreshMs?.(state.data?.pages.flatMap((page) => page.data) ?? []) ?? false,
  });
  return {
    items: data?.pages.flatMap((page) => page.data),
    error,
    readMore: hasNextPage ? () => void fetchNextPage() : null,
    isReadingMore: isFetchingNextPage,
  };
}
