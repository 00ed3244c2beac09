/** What the list of jobs is narrowed by; it stands in the address, so that a view can be shared. */
import { useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useSearchParams } from 'wouter';
import { answered, api } from '../../gateway/client.ts';
import type { JobFilter } from '../../gateway/live.tsx';
import { useWho } from '../../gateway/session.ts';

const statuses = ['queued', 'in_progress', 'completed', 'failed', 'canceled'] as const;
const words = ['status', 'type', 'model', 'keyId', 'after', 'before'] as const;

/** The filter in the address, and how to change a word of it. */
export function useJobFilter(): [JobFilter, (name: string, value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const named = words.flatMap((name) => {
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

/** Their fields. */
export function JobFilters({ filter, change }: FiltersProps) {
  const who = useWho();
  const { data: studio } = useQuery({
    queryKey: ['studio-models'],
    queryFn: () => answered(api.GET('/api/v1/studio/models')),
    staleTime: Infinity,
  });
  const { data: keys } = useQuery({
    queryKey: ['keys'],
    queryFn: () => answered(api.GET('/api/v1/api-keys')),
    enabled: who.refuses('keys:read') === null,
  });
  const capabilities = studio?.data ?? [];
  const models = [...new Set(capabilities.flatMap((each) => each.models.map(({ id }) => id)))];
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
    <div className="filters" role="search" aria-label="Jobs">
      <Select
        title="Status"
        name="status"
        {...{ filter, change }}
        options={statuses.map((id) => [id, id.replace('_', ' ')])}
      />
      <Select
        title="Kind"
        name="type"
        {...{ filter, change }}
        options={capabilities.map(({ type }) => [type, type])}
      />
      <Select
        title="Model"
        name="model"
        {...{ filter, change }}
        options={models.map((id) => [id, id])}
      />
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
        <option value="">any</option>
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
