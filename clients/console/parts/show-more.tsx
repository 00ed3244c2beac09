/** Button that loads the next page of a list. */

/** Further pages of a list. */
export interface MorePages {
  /** Loads the next page. Null if there are no more pages. */
  readMore?: (() => void) | null;
  isReadingMore?: boolean;
}

/** Shows a button that loads the next page, or nothing if there are no more pages. */
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
