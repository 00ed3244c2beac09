/** Shows ids of jobs, keys and requests. */
import { useRef, useState } from 'react';
import { copyText, selectedMessage } from './copy.ts';

const tailLength = 8;
/** Time for which a message is shown, in milliseconds. */
const messageMs = 3000;

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
  const [message, setMessage] = useState('');
  const shown = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    setMessage((await copyText(id, shown.current)) ? ' copied' : ` ${selectedMessage}`);
    setTimeout(setMessage, messageMs, '');
  };
  return (
    <button type="button" className="id" title={`Copy ${id}`} onClick={() => void copy()}>
      <code ref={shown}>{id}</code>
      <span role="status">{message}</span>
    </button>
  );
}
