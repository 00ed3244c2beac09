/** JSON editor for values that have no other form field. */
import { useState } from 'react';

interface JsonFieldProps {
  id: string;
  value: unknown;
  change: (value: unknown) => void;
}

/** Shows a JSON editor. Invalid JSON stays in the editor and is marked as invalid. */
export function JsonField({ id, value, change }: JsonFieldProps) {
  const [text, setText] = useState(() =>
    value === undefined ? '' : JSON.stringify(value, null, 2),
  );
  const [isInvalid, setInvalid] = useState(false);
  return (
    <>
      <textarea
        id={id}
        spellCheck={false}
        placeholder="JSON"
        aria-invalid={isInvalid}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          const parsed = parseJson(target.value);
          setInvalid(parsed === null);
          if (parsed) change(parsed.value);
        }}
      />
      {isInvalid && <span className="wrong">This is not valid JSON.</span>}
    </>
  );
}

function parseJson(text: string): { value: unknown } | null {
  if (text.trim() === '') return { value: undefined };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}
