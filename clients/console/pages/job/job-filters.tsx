/** Filters of the job list, stored in the URL so that a view can be shared. */
import { useQuery } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import type { JobFilter } from '../../gateway/live.tsx';
import { useSessionKey } from '../../gateway/session.ts';
import { pickValues, toStartOfDay, useQueryString } from '../../parts/query-string.ts';
import { SelectField, TextField, allOption, toOptions } from '../../parts/fields.tsx';
import { toWords, formatType } from '../../parts/names.ts';
import { SearchField } from '../../parts/search-field.tsx';
import { keysQuery } from '../keys/key-query.ts';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';

const statuses = ['queued', 'in_progress', 'completed', 'failed', 'canceled'] as const;
const filterNames = ['search', 'status', 'type', 'model', 'keyId', 'after', 'before'] as const;
const moreFilterNames = ['keyId', 'tag', 'after', 'before'] as const;

/** Reads the filter of the job list from the query string. */
export function readJobFilter(search: URLSearchParams): JobFilter {
  const [, tag, value] = /^([^=]+)=(.*)$/.exec(search.get('tag') ?? '') ?? [];
  return {
    ...pickValues(search, filterNames),
    ...(value !== undefined && { [`metadata[${tag}]`]: value }),
  };
}

interface FiltersProps {
  filter: JobFilter;
  change: (name: string, value: string) => void;
}

/** Shows a field for each filter of the job list. */
export function JobFilters({ filter, change }: FiltersProps) {
  const { data: studio } = useQuery(capabilitiesQuery);
  const capabilities = studio?.data ?? [];
  const models = [
    ...new Set(capabilities.flatMap((capability) => capability.models.map(({ id }) => id))),
  ];
  const selects = [
    ['status', 'Status', statuses.map((id) => [id, toWords(id)] as const)],
    ['type', 'Type', capabilities.map(({ type }) => [type, formatType(type)] as const)],
    ['model', 'Model', toOptions(models)],
  ] as const;
  return (
    <div role="search" aria-label="Jobs" className="pills">
      <SearchField text={filter.search ?? ''} change={(text) => change('search', text)} />
      {selects.map(([name, label, options]) => (
        <SelectField
          key={name}
          label={label}
          className={filter[name] ? 'pill chosen' : 'pill'}
          options={[allOption, ...options]}
          value={filter[name] ?? ''}
          change={(value) => change(name, value)}
        />
      ))}
      <MoreFilters filter={filter} change={change} />
    </div>
  );
}

function MoreFilters({ filter, change }: FiltersProps) {
  const [search] = useQueryString();
  const mayReadKeys = useSessionKey().explainDenial('keys:read') === null;
  const { data } = useQuery({ ...keysQuery, enabled: mayReadKeys });
  const keys = data?.keys ?? [];
  return (
    <details className="more-filters" open={moreFilterNames.some((name) => search.has(name))}>
      <summary>More filters</summary>
      <div className="filters">
        <SelectField
          label="Key"
          options={[allOption, ...keys.map(({ keyId, name }) => [keyId, name] as const)]}
          value={filter.keyId ?? ''}
          change={(keyId) => change('keyId', keyId)}
        />
        <TagField tag={search.get('tag') ?? ''} change={change} />
        {(['after', 'before'] as const).map((name) => (
          <TextField
            key={name}
            label={name === 'after' ? 'Since' : 'Until'}
            type="date"
            value={filter[name]?.slice(0, 10) ?? ''}
            change={(date) => change(name, toStartOfDay(date))}
          />
        ))}
      </div>
    </details>
  );
}

function TagField({ tag, change }: Pick<FiltersProps, 'change'> & { tag: string }) {
  const [text, setText] = useState(tag);
  const applyTag = (): void => change('tag', /^[^=]+=.*$/.test(text) ? text : '');
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    applyTag();
  };
  return (
    <form onSubmit={submit}>
      <TextField
        label="Tag"
        placeholder="team=marketing"
        value={text}
        onBlur={applyTag}
        change={setText}
      />
    </form>
  );
}
