/** A text that changes only after its source has been quiet. */
import { useEffect, useState } from 'react';

/** Returns the text after it has not changed for `quietMs` milliseconds. */
export function useSettled(text: string, quietMs: number): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), quietMs);
    return () => clearTimeout(timer);
  }, [text, quietMs]);
  return settled;
}
