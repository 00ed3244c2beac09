/** Button that loads the next page of a list. */

/** How to load more pages of a list. */
export interface MorePages {
  /** Loads the next page. Null if there is none. */
  readMore?: (() => void) | null;
  isReadingMore?: boolean;
}

/** Shows the button, or nothing if there are no more pages. */
export function ShowMore({ readMore, isReadingMore }: MorePages) {
  if (!readMore) return null;
  return (
    <p>
      <button type="button" disabled={isReadingMore} onClick={readMore}>
        {isReadingMore ? 'Loading…' : 'Show more'}
      </button>
    </p>
  );
}
