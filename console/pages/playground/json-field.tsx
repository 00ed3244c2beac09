/** Field for a value that only JSON can express. */
import { useState } from 'react';

interface JsonFieldProps {
  id: string;
  value: unknown;
  change: (value: unknown) => void;
}

/**
 * Shows a JSON editor; a text that is not valid JSON stays in the field and is marked as invalid.
 */
export function JsonField({ id, value, change }: JsonFieldProps) {
  const [text, setText] = useState(() =>
    value === undefined ? '' : JSON.stringify(value, null, 2),
  );
  const [isWrong, setWrong] = useState(false);
  return (
    <>
      <textarea
        id={id}
        spellCheck={false}
        placeholder="JSON"
        aria-invalid={isWrong}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          const parsed = parse(target.value);
          setWrong(parsed === null);
          if (parsed) change(parsed.value);
        }}
      />
      {isWrong && <span className="wrong">This is not JSON yet.</span>}
    </>
  );
}

function parse(text: string): { value: unknown } | null {
  if (text.trim() === '') return { value: undefined };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}
