/** Requests page: chats, embeddings and rejected requests, newest first. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap, api } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { Credits } from '../../parts/amounts.tsx';
import { FilterBar } from '../../parts/filter-bar.tsx';
import { toOptions } from '../../parts/fields.tsx';
import { pickValues, useQueryString } from '../../parts/query-string.ts';
import { State } from '../../parts/state.tsx';
import { Empty } from '../../parts/states.tsx';
import { RelativeTime, formatDuration } from '../../parts/times.tsx';
import { KeyFilter, TagFilter, readTag } from '../job/job-filters.tsx';
import { JobList } from '../job/job-list.tsx';
import { chatModelsQuery } from '../models/chat-models-query.ts';
import {
  formatEndpoint,
  formatTokens,
  requestKinds,
  runningRefreshMs,
  type RequestRecord,
} from './request-query.ts';

/** Filter of the list, as query parameters of the API. */
type RequestFilter = Partial<Pick<RequestRecord, 'kind' | 'status' | 'keyId'>> & {
  model?: string;
  after?: string;
  before?: string;
  [tag: `metadata[${string}]`]: string;
};

const pageSize = 50;
const filterNames = ['kind', 'status', 'model', 'keyId', 'after', 'before'] as const;
const moreFilterNames = ['keyId', 'tag', 'after', 'before'] as const;
const statuses = ['running', 'completed', 'failed', 'canceled', 'rejected'] as const;
const titles = ['Model', 'Tokens', 'Status', 'Duration', 'Credits', 'Created'] as const;

/** Shows the requests page. */
export default function Requests() {
  const [search, change] = useQueryString();
  const filter: RequestFilter = { ...pickValues(search, filterNames), ...readTag(search) };
  const { data: models } = useQuery(chatModelsQuery);
  const denial = useSessionKey().explainDenial('usage:read');
  if (denial !== null) return <Empty title="Requests">{denial}</Empty>;
  return (
    <>
      <div className="head">
        <h1>Requests</h1>
        <p className="hint">Chats and embeddings, and rejected requests of the last 24 hours.</p>
      </div>
      <FilterBar
        label="Requests"
        filter={{ ...filter }}
        change={change}
        isSearchable={false}
        selects={[
          ['kind', 'Kind', Object.entries(requestKinds)],
          ['status', 'Status', toOptions(statuses)],
          ['model', 'Model', toOptions(models?.models.map(({ id }) => id) ?? [])],
        ]}
        isOpen={moreFilterNames.some((name) => search.has(name))}
      >
        <KeyFilter filter={{ ...filter }} change={change} />
        <TagFilter tag={search.get('tag') ?? ''} change={change} />
      </FilterBar>
      <RequestList filter={filter} />
    </>
  );
}

function RequestList({ filter }: { filter: RequestFilter }) {
  const requests = usePages({
    queryKey: ['requests', filter],
    read: (cursor) =>
      unwrap(
        api.GET('/api/v1/requests', {
          params: { query: { ...filter, limit: pageSize, ...cursor } },
        }),
      ),
    refreshMs: (items) => items.some(({ status }) => status === 'running') && runningRefreshMs,
  });
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <JobList
      {...requests}
      label="Requests"
      rowId={({ id }) => id}
      titles={titles}
      firstTitle="Kind"
      renderRow={(request) => <RequestRow request={request} />}
    >
      <Empty title={isFiltered ? 'No requests match' : 'No requests yet'}>
        {isFiltered ? (
          'Change or clear the filters.'
        ) : (
          <>
            Send one in the <Link href="/playground/chat">chat</Link>.
          </>
        )}
      </Empty>
    </JobList>
  );
}

function RequestRow({ request }: { request: RequestRecord }) {
  const { id, kind, status, model, provider, error, durationMs, credits, createdAt } = request;
  return (
    <Link href={`/requests/${id}`} className="job-row" data-job={id}>
      <span>{requestKinds[kind]}</span>
      <span title={request.path ?? undefined}>
        <strong>{model ?? formatEndpoint(request)}</strong> <span className="dim">{provider}</span>
      </span>
      <span>{formatTokens(request)}</span>
      <span title={error?.code}>
        <State name={status} /> {error && <span className="dim">{error.message}</span>}
      </span>
      <span className="dim">{durationMs === null ? '–' : formatDuration(durationMs)}</span>
      <span className="number">{credits === 0 ? '–' : <Credits amount={credits} />}</span>
      <span className="dim">
        <RelativeTime time={createdAt} />
      </span>
    </Link>
  );
}
