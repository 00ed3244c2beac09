/** Filters of a list in one row, for callers and operators. Rare ones are below "More filters". */
import type { ReactNode } from 'react';
import { SelectField, TextField, allOption } from './fields.tsx';
import { toStartOfDay } from './query-string.ts';
import { SearchField } from './search-field.tsx';

/** Values of the filters of a list by name, and the function that changes one. */
export interface Filters {
  filter: Partial<Record<string, string>>;
  change: (name: string, value: string) => void;
}

interface FilterBarProps extends Filters {
  label: string;
  /** False for a list without a search by text. */
  isSearchable?: boolean;
  /** Filters with a list of values: name, label and options. */
  selects: readonly (readonly [string, string, readonly (readonly [string, string])[]])[];
  /** True if a filter below "More filters" is set, which are then shown. */
  isOpen: boolean;
  /** Filters below "More filters", besides the times. */
  children: ReactNode;
}

/** Shows a field for each filter. */
export function FilterBar(props: FilterBarProps) {
  const { label, filter, change, isSearchable = true, selects, isOpen, children } = props;
  return (
    <div role="search" aria-label={label} className="pills">
      {isSearchable && (
        <SearchField text={filter['search'] ?? ''} change={(text) => change('search', text)} />
      )}
      {selects.map(([name, title, options]) => (
        <SelectField
          key={name}
          label={title}
          className={filter[name] ? 'pill chosen' : 'pill'}
          options={[allOption, ...options]}
          value={filter[name] ?? ''}
          change={(value) => change(name, value)}
        />
      ))}
      <details className="more-filters" open={isOpen}>
        <summary>More filters</summary>
        <div className="filters">
          {children}
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
    </div>
  );
}
