/** Jobs of all organizations, newest first, with filters that are stored in the URL. */
import { useQuery } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { pickValues, toStartOfDay, useQueryString } from '../../parts/query-string.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField, TextField, allOption, toOptions } from '../../parts/fields.tsx';
import { formatType } from '../../parts/names.ts';
import { Panel } from '../../parts/panel.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { BulkActionButton } from './bulk-actions.tsx';
import { JobLink, OrganizationLink } from './links.tsx';
import { providersQuery } from './providers.tsx';

const pageSize = 20;
const statuses = ['open', 'completed', 'failed', 'canceled'];
const textFilters = [
  ['errorCode', 'Error code', 'CONTENT_POLICY'],
  ['model', 'Model', 'nano-banana'],
  ['organizationId', 'Organization id', 'org_…'],
] as const;
const filterNames = ['search', 'status', 'provider', 'after', ...textFilters.map(([name]) => name)];

const columns: Column<OperatorSchemas['JobLine']>[] = [
  {
    title: 'Job',
    cell: ({ jobId, prompt, type }) => (
      <>
        <JobLink id={jobId} prompt={prompt} />
        <span className="dim block">{formatType(type)}</span>
      </>
    ),
  },
  {
    title: 'Organization',
    cell: ({ organizationId, organizationName }) => (
      <OrganizationLink id={organizationId} name={organizationName} />
    ),
  },
  {
    title: 'Model',
    cell: ({ model, provider }) => (
      <>
        {model}
        <span className="dim block">{provider}</span>
      </>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, errorCode }) => (
      <>
        <State name={status} />
        {errorCode && <code className="wrong block">{errorCode}</code>}
      </>
    ),
  },
  {
    title: 'Credits',
    isNumber: true,
    cell: ({ billing: { state, reserved, charged } }) => (
      <Credits amount={state === 'reserved' ? reserved : charged} />
    ),
  },
  { title: 'Created', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
];

/** Shows the filters, and the jobs that match them. */
export function AllJobs() {
  const [search, change] = useQueryString();
  const filter = pickValues(search, filterNames);
  const isFiltered = Object.keys(filter).length > 0;
  const jobs = usePages({
    queryKey: ['operator', 'jobs', filter],
    read: (cursor) =>
      unwrap(
        operatorApi.GET('/api/admin/v1/jobs', {
          params: { query: { ...filter, limit: pageSize, ...cursor } },
        }),
      ),
  });
  return (
    <>
      <div role="search" aria-label="All jobs">
        <SearchField text={filter['search'] ?? ''} change={(text) => change('search', text)} />
        <Filters filter={filter} change={change} />
      </div>
      <Panel
        title="Jobs"
        columns={columns}
        {...jobs}
        rowId={({ jobId }) => jobId}
        empty={isFiltered ? 'No jobs match' : 'No jobs yet'}
      >
        <BulkActionButton
          label="Act on all matching"
          filter={filter}
          disabledReason={isFiltered ? null : 'Choose a filter first.'}
        />
      </Panel>
    </>
  );
}

interface FiltersProps {
  filter: Record<string, string>;
  change: (name: string, value: string) => void;
}

function Filters({ filter, change }: FiltersProps) {
  const { data } = useQuery(providersQuery);
  const providers = data?.data.map(({ provider }) => provider) ?? [];
  const selects = [
    ['status', 'Status', statuses],
    ['provider', 'Provider', providers],
  ] as const;
  return (
    <div className="filters">
      {selects.map(([name, label, values]) => (
        <SelectField
          key={name}
          label={label}
          options={[allOption, ...toOptions(values)]}
          value={filter[name] ?? ''}
          change={(value) => change(name, value)}
        />
      ))}
      {textFilters.map(([name, label, placeholder]) => (
        <TextField
          key={name}
          label={label}
          placeholder={placeholder}
          defaultValue={filter[name] ?? ''}
          onBlur={({ target }) => change(name, target.value.trim())}
          onKeyDown={({ key, currentTarget }) =>
            key === 'Enter' && change(name, currentTarget.value.trim())
          }
        />
      ))}
      <TextField
        label="Since"
        type="date"
        value={filter['after']?.slice(0, 10) ?? ''}
        change={(date) => change('after', toStartOfDay(date))}
      />
    </div>
  );
}
