/** All models with their prices and a link to try each. */
import { useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import { answered, api } from '../../gateway/client.ts';
import { pricingQuery } from '../../gateway/pricing.ts';
import { useWho } from '../../gateway/session.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';
import { ChatTable, chatRows } from './chat-table.tsx';
import { StudioTable, studioRows } from './studio-table.tsx';

/** Lists all models. */
export default function Models() {
  const [search, setSearch] = useSearchParams();
  const text = search.get('find') ?? '';
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const change = (next: string): void =>
    setSearch(next === '' ? {} : { find: next }, { replace: true });
  return (
    <>
      <div className="head">
        <h1>Models & prices</h1>
        <label className="check">
          Search
          <input
            type="search"
            placeholder="veo, image edit, claude…"
            value={text}
            onChange={({ target }) => change(target.value)}
          />
        </label>
      </div>
      <div className="stack">
        <Studio words={words} />
        <Chat words={words} />
      </div>
    </>
  );
}

function Studio({ words }: { words: string[] }) {
  const refusal = useWho().refuses('studio:read');
  const { data, error } = useQuery({
    ...capabilitiesQuery,
    enabled: refusal === null,
  });
  const rows = data && studioRows(data.data, words);
  return (
    <section className="card stack">
      <h2>Studio{rows && <Count count={rows.length} />}</h2>
      <Refusal error={error} />
      {refusal && <Empty title="Studio models">{refusal}</Empty>}
      {!rows && !error && !refusal && <Loading />}
      {rows?.length === 0 && <Empty title="No Studio models match this search" />}
      {rows && rows.length > 0 && <StudioTable rows={rows} />}
    </section>
  );
}

function Chat({ words }: { words: string[] }) {
  const refusal = useWho().refuses('models:read');
  const { data, error } = useQuery({
    queryKey: ['models'],
    queryFn: () => answered(api.GET('/api/v1/models')),
    staleTime: Infinity,
    enabled: refusal === null,
  });
  const { data: pricing } = useQuery(pricingQuery);
  const rows = data && chatRows(data.models, pricing?.chat ?? [], words);
  return (
    <section className="card stack">
      <h2>Chat{rows && <Count count={rows.length} />}</h2>
      <Refusal error={error} />
      {refusal && <Empty title="Chat models">{refusal}</Empty>}
      {!rows && !error && !refusal && <Loading />}
      {rows?.length === 0 && <Empty title="No chat models match this search" />}
      {rows && rows.length > 0 && <ChatTable rows={rows} />}
    </section>
  );
}

function Count({ count }: { count: number }) {
  return <span className="dim count"> {count}</span>;
}
