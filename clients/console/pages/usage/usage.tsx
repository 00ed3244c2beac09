/** Usage page: credits, charges by day, and usage records. */
import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../../gateway/client.ts';
import { balanceQuery, useSessionKey } from '../../gateway/session.ts';
import { Empty } from '../../parts/states.tsx';
import { Credits, UsdPrice, formatAmount, formatBytes } from '../../parts/amounts.tsx';
import { Tiles, type Tile } from '../../parts/tiles.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { UsageByDay } from './usage-by-day.tsx';
import { UsageRecords } from './usage-records.tsx';

/** Shows the usage page. */
export default function Usage() {
  const denial = useSessionKey().explainDenial('usage:read');
  return (
    <>
      <div className="head">
        <h1>Usage</h1>
      </div>
      {denial ? (
        <Empty title="Usage">{denial}</Empty>
      ) : (
        <div className="stack">
          <Account />
          <UsageByDay />
          <UsageRecords />
        </div>
      )}
    </>
  );
}

function Account() {
  const { data } = useQuery(balanceQuery);
  if (!data) return null;
  const { balance, window, storage } = data;
  const price = <UsdPrice credits={balance.available} />;
  const reserved = <Credits amount={balance.reserved} />;
  const size = formatBytes(storage.limit);
  const meter = <meter aria-label="Storage used" max={storage.limit} value={storage.used} />;
  const tiles: Tile[] = [
    {
      name: 'Available',
      value: <Credits amount={balance.available} />,
      hint: <>credits {price}</>,
    },
    { name: 'Reserved', value: reserved, hint: 'credits for running jobs and chats' },
    { name: 'Studio, six hours', value: formatAmount(window.used), hint: <Window {...window} /> },
    {
      name: 'Stored uploads',
      value: formatBytes(storage.used),
      hint: (
        <>
          of {size}
          {meter}
        </>
      ),
    },
  ];
  return <Tiles tiles={tiles} />;
}

function Window({ limit, used, resetAt }: Schemas['GetUsageAnswer']['window']) {
  return (
    <>
      {limit === null ? 'credits; no limit' : `of ${formatAmount(limit)} credits`}
      {resetAt && (
        <>
          {'; resets '}
          <RelativeTime time={resetAt} />
        </>
      )}
      {limit !== null && (
        <meter
          aria-label="Credits used in the six hours"
          max={limit}
          high={limit * 0.9}
          value={used}
        />
      )}
    </>
  );
}
