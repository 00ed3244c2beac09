/** Shows ids of jobs, keys and requests. */
import { useState } from 'react';

const tailLength = 8;

/** Shows the end of an id, because many ids start alike. The tooltip is the whole id. */
export function IdTail({ id }: { id: string }) {
  return (
    <code className="tail" title={id}>
      …{id.slice(-tailLength)}
    </code>
  );
}

/** Shows an id with a button that copies it. */
export function CopyId({ id }: { id: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="id"
      title={`Copy ${id}`}
      onClick={() => {
        void navigator.clipboard.writeText(id).then(() => setCopied(true));
        setTimeout(() => setCopied(false), 1500);
      }}
    >
      <code>{id}</code>
      <span role="status">{isCopied ? ' copied' : ''}</span>
    </button>
  );
}
