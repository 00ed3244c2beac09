/** Balance that does not cover a request: what is missing, and who can help. */
import { useQuery } from '@tanstack/react-query';
import { balanceQuery, useSessionKey } from '../../gateway/session.ts';
import { formatAmount } from '../../parts/amounts.tsx';

/** Time after which a balance that does not suffice is read again, in milliseconds. */
const refreshMs = 10_000;

/**
 * Returns the reason why the available credits do not cover a request of this price. Null if they do,
 * or if price or balance are unknown.
 */
export function useShortfall(credits: number | undefined): string | null {
  const mayRead = useSessionKey().explainDenial('usage:read') === null;
  const isShort = (available: number | undefined): boolean =>
    credits !== undefined && available !== undefined && available < credits;
  const { data } = useQuery({
    ...balanceQuery,
    enabled: mayRead,
    refetchInterval: ({ state }) => isShort(state.data?.balance.available) && refreshMs,
  });
  const available = data?.balance.available;
  if (credits === undefined || available === undefined || !isShort(available)) return null;
  const missing =
    available <= 0
      ? 'Your organization has no credits.'
      : `${formatAmount(credits - available)} credits are missing.`;
  return `${missing} The operator of this gateway grants them.`;
}

/** Shows the reason above the button of a form. */
export function Shortfall({ reason }: { reason: string | null }) {
  return reason !== null && <p className="notice">{reason}</p>;
}
