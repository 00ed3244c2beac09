/** Message that the rate limit rejected requests (429), with a countdown to the next retry. */
import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ApiError } from '../gateway/client.ts';
import { Countdown } from './countdown.tsx';

/** Shows the countdown to the next retry, or nothing if no request is waiting for a retry. */
export function RateLimited() {
  const cache = useQueryClient().getQueryCache();
  const retryAtMs = useSyncExternalStore(
    (changed) => cache.subscribe(changed),
    () =>
      Math.max(
        0,
        ...cache
          .findAll({ fetchStatus: 'fetching' })
          .map(({ state: { fetchFailureReason: reason } }) =>
            reason instanceof ApiError ? (reason.retryAtMs ?? 0) : 0,
          ),
      ),
  );
  return (
    <div role="status">
      {retryAtMs > 0 && (
        <p className="away">
          Too many requests. <Countdown untilMs={retryAtMs}>Retrying</Countdown>
        </p>
      )}
    </div>
  );
}
