/** Fields of forms with their labels. */
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
  /** Receives the text after each change; absent: the form reads the field by its name. */
  change?: (value: string) => void;
}

/** Shows an input with its label. */
export function TextField({ label, hint, change, className, ...input }: TextFieldProps) {
  return (
    <label className={className}>
      <Label label={label} hint={hint} />
      <input {...input} onChange={change && (({ target }) => change(target.value))} />
    </label>
  );
}

interface SelectFieldProps<Value extends string | number> extends LabelProps {
  /** Values with their texts. */
  options: readonly (readonly [Value, string])[];
  /** Name by which the form reads the field. */
  name?: string;
  /** Selected value; absent: the form keeps it, and `defaultValue` is selected first. */
  value?: Value;
  defaultValue?: Value;
  change?: (value: Value) => void;
  className?: string;
}

/** Shows a list of choices with its label. */
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

/** Option that applies no filter. */
export const allOption = ['', 'All'] as const;

/** Makes options whose texts are their values. */
export const plainOptions = <Value extends string>(values: readonly Value[]) =>
  values.map((value) => [value, value] as const);
