/** Filters of the list of jobs. They are part of the address, so that a view can be shared. */
import { useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useSearchParams } from 'wouter';
import type { JobFilter } from '../../gateway/live.tsx';
import { useWho } from '../../gateway/session.ts';
import { typeText, wordsOf } from '../../parts/names.ts';
import { SearchField } from '../../parts/search-field.tsx';
import { keysQuery } from '../keys/key-query.ts';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';

const statuses = ['queued', 'in_progress', 'completed', 'failed', 'canceled'] as const;
const names = ['search', 'status', 'type', 'model', 'keyId', 'after', 'before'] as const;
const furtherNames = ['keyId', 'tag', 'after', 'before'] as const;

/** Returns the filter in the address, and a function that changes one of its values. */
export function useJobFilter(): [JobFilter, (name: string, value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const named = names.flatMap((name) => {
    const value = search.get(name);
    return value ? [[name, value]] : [];
  });
  const [tag, value] = (search.get('tag') ?? '').split('=');
  const tagged = tag && value !== undefined ? [[`metadata[${tag}]`, value]] : [];
  const change = (name: string, next: string): void =>
    setSearch((before) => {
      if (next === '') before.delete(name);
      else before.set(name, next);
      return before;
    });
  return [Object.fromEntries([...named, ...tagged]), change];
}

interface FiltersProps {
  filter: JobFilter;
  change: (name: string, value: string) => void;
}

/** Shows the fields of the filters. */
export function JobFilters({ filter, change }: FiltersProps) {
  const { data: studio } = useQuery(capabilitiesQuery);
  const capabilities = studio?.data ?? [];
  const models = [...new Set(capabilities.flatMap((each) => each.models.map(({ id }) => id)))];
  return (
    <div role="search" aria-label="Jobs">
      <SearchField text={filter.search ?? ''} change={(text) => change('search', text)} />
      <div className="filters">
        <Select
          title="Status"
          name="status"
          {...{ filter, change }}
          options={statuses.map((id) => [id, wordsOf(id)])}
        />
        <Select
          title="Type"
          name="type"
          {...{ filter, change }}
          options={capabilities.map(({ type }) => [type, typeText(type)])}
        />
        <Select
          title="Model"
          name="model"
          {...{ filter, change }}
          options={models.map((id) => [id, id])}
        />
      </div>
      <FurtherFilters filter={filter} change={change} />
    </div>
  );
}

function FurtherFilters({ filter, change }: FiltersProps) {
  const who = useWho();
  const [search] = useSearchParams();
  const { data: keys } = useQuery({ ...keysQuery, enabled: who.refuses('keys:read') === null });
  const day = (name: 'after' | 'before') => (
    <label>
      {name === 'after' ? 'Since' : 'Until'}
      <input
        type="date"
        value={filter[name]?.slice(0, 10) ?? ''}
        onChange={({ target }) => change(name, target.value && `${target.value}T00:00:00Z`)}
      />
    </label>
  );
  return (
    <details className="more-filters" open={furtherNames.some((name) => search.has(name))}>
      <summary>More filters</summary>
      <div className="filters">
        <Select
          title="Key"
          name="keyId"
          {...{ filter, change }}
          options={(keys?.keys ?? []).map(({ keyId, name }) => [keyId, name])}
        />
        <TagField change={change} />
        {day('after')}
        {day('before')}
      </div>
    </details>
  );
}

interface SelectProps extends FiltersProps {
  title: string;
  name: 'status' | 'type' | 'model' | 'keyId';
  options: readonly (readonly [string, string])[];
}

function Select({ title, name, filter, change, options }: SelectProps) {
  return (
    <label>
      {title}
      <select value={filter[name] ?? ''} onChange={({ target }) => change(name, target.value)}>
        <option value="">All</option>
        {options.map(([id, text]) => (
          <option key={id} value={id}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function TagField({ change }: Pick<FiltersProps, 'change'>) {
  const [search] = useSearchParams();
  const [text, setText] = useState(search.get('tag') ?? '');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    change('tag', /^[^=]+=.*$/.test(text) ? text : '');
  };
  return (
    <form onSubmit={submit}>
      <label>
        Tag
        <input
          placeholder="team=marketing"
          value={text}
          onBlur={submit}
          onChange={({ target }) => setText(target.value)}
        />
      </label>
    </form>
  );
}
