/** Cost of a job. */
import type { Job } from '../../gateway/client.ts';
import { Credits, UsdPrice } from '../../parts/amounts.tsx';

/** Shows how many credits were reserved, charged, released or refunded for a job. */
export function Billing({ billing }: Pick<Job, 'billing'>) {
  const { state, reserved, charged, refunded } = billing;
  if (state === 'released') {
    return (
      <>
        nothing charged, <Credits amount={reserved} /> credits released
      </>
    );
  }
  const amount = state === 'charged' ? charged : reserved;
  return (
    <>
      <Credits amount={amount} /> credits {state} <UsdPrice credits={amount} />
      {state === 'charged' && charged < reserved && (
        <span className="dim">
          {' '}
          (<Credits amount={reserved} /> were reserved)
        </span>
      )}
      {refunded > 0 && (
        <>
          , <Credits amount={refunded} /> refunded
        </>
      )}
    </>
  );
}
