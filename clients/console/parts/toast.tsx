/** Short messages after actions, at the edge of the page. */
import { useSyncExternalStore } from 'react';

interface Toast {
  id: number;
  text: string;
}

/** Time for which a message is shown, in milliseconds. */
const shownMs = 5000;
let toasts: readonly Toast[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

function setToasts(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

/** Shows a message for a few seconds. */
export function showToast(text: string): void {
  lastId += 1;
  const id = lastId;
  setToasts([...toasts, { id, text }]);
  setTimeout(() => setToasts(toasts.filter((toast) => toast.id !== id)), shownMs);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Shows the current messages, and reads them to screen readers. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div className="toasts" role="status" aria-label="Messages">
      {shown.map(({ id, text }) => (
        <p key={id}>{text}</p>
      ))}
    </div>
  );
}
