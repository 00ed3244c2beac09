/** Shows that requests were rejected with 429, and the seconds until they are sent again. */
import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ApiError } from '../gateway/client.ts';
import { Countdown } from './countdown.tsx';

/**
 * Shows the countdown until the next retry, or nothing while no request waits for its rate limit.
 */
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
