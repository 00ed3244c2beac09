/** A field that searches jobs by any id or by the text of the prompt. */
import { useEffect, useState, type SubmitEvent } from 'react';

interface SearchFieldProps {
  /** Text that is searched now. */
  text: string;
  change: (text: string) => void;
}

/** Time without a keystroke after which the text is searched, in milliseconds. */
const settleMs = 400;

/** Searches while the user types, and at once on Enter. */
export function SearchField({ text, change }: SearchFieldProps) {
  const [typed, setTyped] = useState(text);
  useEffect(() => {
    if (typed.trim() === text) return undefined;
    const timer = setTimeout(() => change(typed.trim()), settleMs);
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
