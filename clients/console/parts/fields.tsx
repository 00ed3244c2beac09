/** Form fields with labels. */
import type { ComponentProps } from 'react';

interface LabelProps {
  label: string;
  /** Short explanation after the label. */
  hint?: string | undefined;
}

function Label({ label, hint }: LabelProps) {
  if (hint === undefined) return label;
  return (
    <span>
      {label} <span className="hint">{hint}</span>
    </span>
  );
}

interface TextFieldProps extends LabelProps, Omit<ComponentProps<'input'>, 'onChange'> {
  /** Receives the text after each change. Omit it if the form reads the field by its `name`. */
  change?: (value: string) => void;
}

/** Shows a text input with its label. */
export function TextField({ label, hint, change, className, ...input }: TextFieldProps) {
  return (
    <label className={className}>
      <Label label={label} hint={hint} />
      <input {...input} onChange={change && (({ target }) => change(target.value))} />
    </label>
  );
}

interface SelectFieldProps<Value extends string | number> extends LabelProps {
  /** Options: pairs of a value and the text to show for it. */
  options: readonly (readonly [Value, string])[];
  /** Name under which the form reads the field. */
  name?: string;
  /** Selected value. Omit it if the form reads the field; `defaultValue` is then preselected. */
  value?: Value;
  defaultValue?: Value;
  change?: (value: Value) => void;
  className?: string;
}

/** Shows a drop-down list with its label. */
export function SelectField<Value extends string | number>({
  label,
  hint,
  options,
  change,
  className,
  ...select
}: SelectFieldProps<Value>) {
  const choose = (text: string): void => {
    const option = options.find(([value]) => String(value) === text);
    if (option) change?.(option[0]);
  };
  return (
    <label className={className}>
      <Label label={label} hint={hint} />
      <select {...select} onChange={({ target }) => choose(target.value)}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface TabButtonsProps<Value extends string> {
  label: string;
  options: readonly (readonly [Value, string])[];
  value: Value;
  change: (value: Value) => void;
}

/** Shows a choice as a row of buttons, of which the chosen one is pressed. */
export function TabButtons<Value extends string>(props: TabButtonsProps<Value>) {
  const { label, options, value, change } = props;
  return (
    <div className="tabs" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button
          key={option}
          type="button"
          aria-pressed={option === value}
          onClick={() => change(option)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

const overlaps = [
  [0, 'immediately'],
  [3600, 'in an hour'],
  [86_400, 'in a day'],
  [604_800, 'in a week'],
] as const;

/** Selects when a replaced key or secret expires. The form reads it as `overlap`, in seconds. */
export function OverlapField({ label }: { label: string }) {
  return <SelectField label={label} name="overlap" options={overlaps} defaultValue={86_400} />;
}

/** First option of a filter. It matches everything. */
export const allOption = ['', 'All'] as const;

/** Converts values to options whose text is the value. */
export const toOptions = <Value extends string>(values: readonly Value[]) =>
  values.map((value) => [value, value] as const);
