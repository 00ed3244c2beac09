/** What a page shows while data loads, if there is no data, or if a request failed. */
import type { ReactNode } from 'react';
import { ApiError } from '../gateway/client.ts';
import { Countdown } from './countdown.tsx';

const bars = ['58%', '92%', '76%', '84%'];

/** Shows gray bars while content is loading. */
export function Loading() {
  return (
    <div className="skeleton" role="status">
      <span className="unseen">Loading</span>
      {bars.map((width) => (
        <span key={width} className="bar" style={{ width }} />
      ))}
    </div>
  );
}

/** Shows that a list is empty; `children` explain how to add the first item. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

/** Shows an error, the rejected fields and the request id. */
export function ErrorMessage({ error }: { error: Error | null }) {
  if (!error) return null;
  const known = error instanceof ApiError ? error : undefined;
  return (
    <div className="error" role="alert">
      <p>
        {error.message}{' '}
        {known?.retryAtMs && <Countdown untilMs={known.retryAtMs}>You can try again</Countdown>}
      </p>
      {known && known.details.length > 1 && (
        <ul>
          {known.details.map(({ path, message }) => (
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
