/** The button that reads the next page of a list. */

/** State of the pages of a list. */
export interface MorePages {
  /** Reads the next page; null if there is none. */
  readMore?: (() => void) | null;
  isReadingMore?: boolean;
}

/** Shows the button; nothing after the last page. */
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
