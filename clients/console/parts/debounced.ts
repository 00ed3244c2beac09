/** Debounced text: it changes only when the user stops typing. */
import { useEffect, useState } from 'react';

/** Returns the latest text that has stayed unchanged for `delayMs` milliseconds. */
export function useDebounced(text: string, delayMs: number): string {
  const [debounced, setDebounced] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(text), delayMs);
    return () => clearTimeout(timer);
  }, [text, delayMs]);
  return debounced;
}
