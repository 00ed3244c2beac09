/** What is shown while something loads, where nothing is, and when it was refused. */
import type { ReactNode } from 'react';
import { ApiError } from '../gateway/client.ts';
import { Countdown } from './countdown.tsx';

/** Something is on its way. */
export function Loading() {
  return (
    <p className="loading" role="status">
      Loading…
    </p>
  );
}

/** There is nothing yet; `children` says what would be here. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

/** A refusal in words, with its fields and the request's id. */
export function Refusal({ error }: { error: Error | null }) {
  if (!error) return null;
  const known = error instanceof ApiError ? error : undefined;
  return (
    <div className="refusal" role="alert">
      <p>
        {error.message}{' '}
        {known?.retryAtMs && <Countdown untilMs={known.retryAtMs}>You can try again</Countdown>}
      </p>
      {known && known.fields.length > 1 && (
        <ul>
          {known.fields.map(({ path, message }) => (
            <li key={path + message}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {known?.requestId && (
        <p className="dim">
          {known.code} · request <code>{known.requestId}</code>
        </p>
      )}
    </div>
  );
}
