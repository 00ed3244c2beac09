/** Usage page: credits, charges by day, and usage records. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { balanceQuery, useSessionKey } from '../../gateway/session.ts';
import { Empty } from '../../parts/states.tsx';
import { formatBytes, Credits, UsdPrice } from '../../parts/amounts.tsx';
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
  return (
    <div className="figures">
      <Figure title="Available" value={<Credits amount={balance.available} />}>
        credits <UsdPrice credits={balance.available} />
      </Figure>
      <Figure title="Reserved" value={<Credits amount={balance.reserved} />}>
        credits for running jobs and chats
      </Figure>
      <Figure title="Studio credits in 6-hour window" value={<Credits amount={window.used} />}>
        {window.limit === null ? (
          'credits; no limit'
        ) : (
          <>
            of <Credits amount={window.limit} /> credits
          </>
        )}
        {window.resetAt && (
          <>
            {'; resets '}
            <RelativeTime time={window.resetAt} />
          </>
        )}
        {window.limit !== null && (
          <meter
            aria-label="Credits used in the 6-hour window"
            max={window.limit}
            high={window.limit * 0.9}
            value={window.used}
          />
        )}
      </Figure>
      <Figure title="Stored uploads" value={formatBytes(storage.used)}>
        of {formatBytes(storage.limit)}
        <meter aria-label="Storage used" max={storage.limit} value={storage.used} />
      </Figure>
    </div>
  );
}

interface FigureProps {
  title: string;
  value: ReactNode;
  children: ReactNode;
}

function Figure({ title, value, children }: FigureProps) {
  return (
    <section className="card figure">
      <h2>{title}</h2>
      <p className="value">{value}</p>
      <p className="dim">{children}</p>
    </section>
  );
}
