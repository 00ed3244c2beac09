/** All jobs of all organizations, newest first, by filters that are part of the address. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { SearchField } from '../../parts/search-field.tsx';
import type { TableRow } from '../../parts/table.tsx';
import { Ago, Credits, State } from '../../parts/values.tsx';
import { JobLink, OrganizationLink, TypeAndModel } from './links.tsx';
import { Panel } from './panel.tsx';

const pageSize = 20;
const statuses = ['open', 'completed', 'failed', 'canceled'];
const texts = [
  ['errorCode', 'Error code', 'CONTENT_POLICY'],
  ['model', 'Model', 'nano-banana'],
  ['organizationId', 'Organization id', 'org_…'],
] as const;
const names = ['search', 'status', 'provider', 'after', ...texts.map(([name]) => name)];
const columns = [
  'Job',
  'Organization',
  'Type',
  'Provider',
  'Status',
  { title: 'Credits', isNumber: true },
  'Created',
];

/** Lists the jobs. */
export function AllJobs() {
  const [search, setSearch] = useSearchParams();
  const query = Object.fromEntries(
    names.flatMap((name) => {
      const value = search.get(name);
      return value ? [[name, value]] : [];
    }),
  );
  const change = (name: string, value: string): void =>
    setSearch(
      (before) => {
        if (value === '') before.delete(name);
        else before.set(name, value);
        return before;
      },
      { replace: true },
    );
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'jobs', query],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/jobs', {
          params: { query: { ...query, limit: pageSize, ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
  return (
    <>
      <div role="search" aria-label="All jobs">
        <SearchField text={query['search'] ?? ''} change={(text) => change('search', text)} />
        <Filters query={query} change={change} />
      </div>
      <Panel
        title="Jobs"
        columns={columns}
        rows={data?.pages.flatMap((page) => page.data.map(rowOf))}
        error={error}
        none={Object.keys(query).length === 0 ? 'No jobs yet' : 'No jobs match'}
        more={hasNextPage ? () => void fetchNextPage() : null}
      />
    </>
  );
}

interface FiltersProps {
  query: Record<string, string>;
  change: (name: string, value: string) => void;
}

function Filters({ query, change }: FiltersProps) {
  const { data } = useQuery({
    queryKey: ['operator', 'providers'],
    queryFn: () => answered(operatorApi.GET('/api/admin/v1/providers')),
  });
  const select = (name: string, title: string, choices: readonly string[]): ReactNode => (
    <label>
      {title}
      <select value={query[name] ?? ''} onChange={({ target }) => change(name, target.value)}>
        <option value="">All</option>
        {choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    </label>
  );
  return (
    <div className="filters">
      {select('status', 'Status', statuses)}
      {select('provider', 'Provider', data?.data.map(({ provider }) => provider) ?? [])}
      {texts.map(([name, title, placeholder]) => (
        <label key={name}>
          {title}
          <input
            placeholder={placeholder}
            defaultValue={query[name] ?? ''}
            onBlur={({ target }) => change(name, target.value.trim())}
            onKeyDown={({ key, currentTarget }) =>
              key === 'Enter' && change(name, currentTarget.value.trim())
            }
          />
        </label>
      ))}
      <label>
        Since
        <input
          type="date"
          value={query['after']?.slice(0, 10) ?? ''}
          onChange={({ target }) => change('after', target.value && `${target.value}T00:00:00Z`)}
        />
      </label>
    </div>
  );
}

function rowOf(job: OperatorSchemas['JobLine']): TableRow {
  const { jobId, organizationId, organizationName, type, model, prompt, provider, billing } = job;
  return {
    id: jobId,
    cells: [
      <JobLink key="job" id={jobId} prompt={prompt} />,
      <OrganizationLink key="organization" id={organizationId} name={organizationName} />,
      <TypeAndModel key="type" type={type} model={model} />,
      provider,
      <>
        <State of={job.status} />
        {job.errorCode && (
          <>
            <br />
            <code className="wrong">{job.errorCode}</code>
          </>
        )}
      </>,
      <Credits
        key="credits"
        amount={billing.state === 'reserved' ? billing.reserved : billing.charged}
      />,
      <Ago key="created" at={job.createdAt} />,
    ],
  };
}
