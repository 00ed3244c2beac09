/** Jobs of all organizations, newest first, with filters that are stored in the URL. */
import { useQuery } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { TextField, toOptions } from '../../parts/fields.tsx';
import { FilterBar, type Filters } from '../../parts/filter-bar.tsx';
import { pickValues, useQueryString } from '../../parts/query-string.ts';
import { JobState } from '../../parts/state.tsx';
import { Empty } from '../../parts/states.tsx';
import { JobList } from '../job/job-list.tsx';
import { JobRow } from '../job/job-row.tsx';
import { BulkActionButton } from './bulk-actions.tsx';
import { organizationQuery } from './links.tsx';
import { providersQuery } from './providers.tsx';

const pageSize = 50;
const statuses = ['open', 'completed', 'failed', 'canceled'];
const textFilters = [
  ['errorCode', 'Error code', 'CONTENT_POLICY'],
  ['model', 'Model', 'nano-banana'],
] as const;
const moreNames = ['after', 'before', ...textFilters.map(([name]) => name)];
const filterNames = ['search', 'status', 'provider', 'organizationId', ...moreNames];

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
    <section aria-label="All jobs">
      <div className="head">
        <h2>Jobs</h2>
        <BulkActionButton
          label="Act on all matching"
          filter={filter}
          disabledReason={isFiltered ? null : 'Choose a filter first.'}
        />
      </div>
      <JobFilters filter={filter} change={change} />
      <JobList
        {...jobs}
        firstTitle="Organization"
        renderRow={(job) => (
          <JobRow
            job={job}
            href={`/operator/jobs/${job.jobId}`}
            first={<span title={job.organizationId}>{job.organizationName}</span>}
            state={<StateOfJob job={job} />}
          />
        )}
      >
        <Empty title={isFiltered ? 'No jobs match' : 'No jobs yet'} />
      </JobList>
    </section>
  );
}

function StateOfJob({ job }: { job: OperatorSchemas['JobLine'] }) {
  const { errorCode } = job;
  return (
    <span title={errorCode ?? undefined}>
      <JobState job={job} /> {errorCode && <code className="wrong">{errorCode}</code>}
    </span>
  );
}

function JobFilters({ filter, change }: Filters) {
  const { data } = useQuery(providersQuery);
  const providers = data?.data.map(({ provider }) => provider) ?? [];
  const { organizationId = '' } = filter;
  const { data: chosen } = useQuery({
    ...organizationQuery(organizationId),
    enabled: organizationId !== '',
  });
  const { data: listed } = useQuery({
    queryKey: ['operator', 'organizations', 'newest'],
    queryFn: () =>
      unwrap(operatorApi.GET('/api/admin/v1/organizations', { params: { query: { limit: 200 } } })),
  });
  const organizations = [...(listed?.data ?? []), ...(chosen ? [chosen.data] : [])];
  const names = new Map(organizations.map(({ organizationId: id, name }) => [id, name]));
  return (
    <FilterBar
      label="All jobs"
      {...{ filter, change }}
      selects={[
        ['status', 'Status', toOptions(statuses)],
        ['provider', 'Provider', toOptions(providers)],
        ['organizationId', 'Organization', [...names]],
      ]}
      isOpen={moreNames.some((name) => filter[name])}
    >
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
    </FilterBar>
  );
}
