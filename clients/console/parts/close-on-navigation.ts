/** Closes what lies above the pages: dialogs, and the menu of a narrow screen. */
import { useEffect } from 'react';

/** Calls `close` when a page is opened: by a link, also to the current page, or by *Back*. */
export function useCloseOnNavigation(close: () => void): void {
  useEffect(() => {
    // wouter dispatches `pushState`.
    const events = ['popstate', 'pushState'];
    for (const event of events) addEventListener(event, close);
    return () => {
      for (const event of events) removeEventListener(event, close);
    };
  }, [close]);
}
