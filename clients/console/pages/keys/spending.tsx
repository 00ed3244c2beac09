/** Credits that a key has used of its limit. */
import { Credits } from '../../parts/amounts.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import type { Key } from './key-query.ts';
import { formatLimit } from './limit-fields.tsx';

/** Shows how much of its credit limit a key has used. */
export function Spending({
  apiKey: { name, limit, budget },
}: {
  apiKey: Pick<Key, 'name' | 'limit' | 'budget'>;
}) {
  if (!budget) return 'No credit limit';
  const { used, remaining, per, limit: credits, resetsAt } = budget;
  return (
    <>
      <Credits amount={used} /> used, <Credits amount={remaining} /> remaining
      <meter
        aria-label={`Credits used of the limit of ${name}`}
        max={Math.max(credits, 1)}
        high={credits * 0.8}
        value={used}
      />
      <span className="hint block">
        {formatLimit({ credits, per })}
        {!limit && ' (shared with the key that created it)'}
        {resetsAt && (
          <>
            , resets <RelativeTime time={resetsAt} />
          </>
        )}
      </span>
    </>
  );
}
