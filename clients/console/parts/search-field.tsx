/** Field that searches jobs by any id or by text from the prompt. */
import { useEffect, useState, type SubmitEvent } from 'react';

interface SearchFieldProps {
  /** Text of the current search. */
  text: string;
  change: (text: string) => void;
}

/** Delay between the last keystroke and the search. */
const debounceMs = 400;

/** Shows a field that searches when the user stops typing, and immediately on Enter. */
export function SearchField({ text, change }: SearchFieldProps) {
  const [typed, setTyped] = useState(text);
  useEffect(() => {
    if (typed.trim() === text) return undefined;
    const timer = setTimeout(() => change(typed.trim()), debounceMs);
    return () => clearTimeout(timer);
  }, [typed, text, change]);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    change(typed.trim());
  };
  return (
    <form className="search" onSubmit={submit}>
      <input
        type="search"
        aria-label="Search jobs"
        placeholder="Search by prompt, job id, request id, Idempotency-Key or provider request id"
        maxLength={200}
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
      />
    </form>
  );
}
