/** Lists that the API returns page by page. */
import { useInfiniteQuery, type QueryKey } from '@tanstack/react-query';

interface Page<Item> {
  data: Item[];
  nextCursor: string | null;
}

interface PagesOptions<Item> {
  queryKey: QueryKey;
  /** Requests a page; `query` has the cursor, and is empty for the first page. */
  read: (query: { cursor?: string }) => Promise<Page<Item>>;
  /** Time after which the list is read again, in milliseconds, by its items; absent: never. */
  refreshMs?: (items: readonly Item[]) => number | false;
}

/** Returns the items of the pages that have been read, and a function that reads the next page. */
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
