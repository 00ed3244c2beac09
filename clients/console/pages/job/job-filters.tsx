/** Filters of the job list, stored in the URL so that a view can be shared. */
import { useQuery } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import type { JobFilter } from '../../gateway/live.tsx';
import { useSessionKey } from '../../gateway/session.ts';
import { pickValues, useQueryString } from '../../parts/query-string.ts';
import { SelectField, TextField, allOption, toOptions } from '../../parts/fields.tsx';
import { toWords, formatType } from '../../parts/names.ts';
import { FilterBar, type Filters } from '../../parts/filter-bar.tsx';
import { keysQuery } from '../keys/key-query.ts';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';

const statuses = ['queued', 'in_progress', 'completed', 'failed', 'canceled'] as const;
const filterNames = [
  'search',
  'status',
  'phase',
  'type',
  'model',
  'keyId',
  'after',
  'before',
] as const;
const moreFilterNames = ['keyId', 'tag', 'after', 'before'] as const;

/** Reads the filter of the job list from the query string. */
export function readJobFilter(search: URLSearchParams): JobFilter {
  return { ...pickValues(search, filterNames), ...readTag(search) };
}

/** Reads the tag of a filter. It is a query parameter of the API that is named `metadata[<tag>]`. */
export function readTag(search: URLSearchParams): Record<`metadata[${string}]`, string> {
  const [, tag, value] = /^([^=]+)=(.*)$/.exec(search.get('tag') ?? '') ?? [];
  return value === undefined ? {} : { [`metadata[${tag}]`]: value };
}

/** Shows a field for each filter of the job list. */
export function JobFilters({ filter, change }: Filters) {
  const [search] = useQueryString();
  const { data: studio } = useQuery(capabilitiesQuery);
  const capabilities = studio?.data ?? [];
  const models = [
    ...new Set(capabilities.flatMap((capability) => capability.models.map(({ id }) => id))),
  ];
  return (
    <FilterBar
      label="Jobs"
      {...{ filter, change }}
      selects={[
        ['status', 'Status', statuses.map((id) => [id, toWords(id)])],
        ['phase', 'Waits', [['awaiting_approval', 'for you']]],
        ['type', 'Type', capabilities.map(({ type }) => [type, formatType(type)])],
        ['model', 'Model', toOptions(models)],
      ]}
      isOpen={moreFilterNames.some((name) => search.has(name))}
    >
      <KeyFilter {...{ filter, change }} />
      <TagFilter tag={search.get('tag') ?? ''} change={change} />
    </FilterBar>
  );
}

/** Shows the filter of the API key. */
export function KeyFilter({ filter, change }: Filters) {
  const mayReadKeys = useSessionKey().explainDenial('keys:read') === null;
  const { data: keyList } = useQuery({ ...keysQuery, enabled: mayReadKeys });
  const keys = keyList?.keys ?? [];
  return (
    <SelectField
      label="Key"
      options={[allOption, ...keys.map(({ keyId, name }) => [keyId, name] as const)]}
      value={filter['keyId'] ?? ''}
      change={(keyId) => change('keyId', keyId)}
    />
  );
}

/** Shows the filter of a tag. */
export function TagFilter({ tag, change }: Pick<Filters, 'change'> & { tag: string }) {
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
