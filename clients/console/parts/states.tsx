/** Messages that a page shows while data loads, if there is no data, or if a request failed. */
import type { ReactNode } from 'react';
import { ApiError } from '../gateway/client.ts';
import { Countdown } from './countdown.tsx';

const barWidths = ['58%', '92%', '76%', '84%'];

/** Shows gray bars while content is loading. */
export function Loading() {
  return (
    <div className="skeleton" role="status">
      <span className="unseen">Loading</span>
      {barWidths.map((width) => (
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

/** Shows an error. An error of the API is shown with the invalid fields and the request id. */
export function ErrorMessage({ error }: { error: Error | null }) {
  if (!error) return null;
  const apiError = error instanceof ApiError ? error : undefined;
  return (
    <div className="error" role="alert">
      <p>
        {error.message}{' '}
        {apiError?.retryAtMs && (
          <Countdown untilMs={apiError.retryAtMs}>You can try again</Countdown>
        )}
      </p>
      {apiError && apiError.details.length > 1 && (
        <ul>
          {apiError.details.map(({ path, message }) => (
            <li key={path + message}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {apiError?.requestId && (
        <p className="dim">
          {apiError.code} · request <code>{apiError.requestId}</code>
        </p>
      )}
    </div>
  );
}
