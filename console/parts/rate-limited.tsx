/** Shows that requests were rejected with 429, and the seconds until they are sent again. */
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { ApiError } from '../gateway/client.ts';

/** Shows the countdown until the next retry, or nothing while no request waits for its rate limit. */
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
  return <div role="status">{retryAtMs > 0 && <Countdown untilMs={retryAtMs} />}</div>;
}

function Countdown({ untilMs }: { untilMs: number }) {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNowMs(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(Math.ceil((untilMs - nowMs) / 1000), 0);
  return (
    <p className="away">
      Too many requests. <span role="timer">Retrying in {seconds} s.</span>
    </p>
  );
}
