/** Form fields created from their JSON schemas. */
import { useId, type ReactNode } from 'react';
import { findArraySchema, isMedia, toTitle, type Field, type FieldSchema } from './capability.ts';
import { JsonField } from './json-field.tsx';
import { MediaField, MediaListField } from './media-field.tsx';

interface FieldProps extends Field {
  value: unknown;
  /** Validation message from the API. */
  error?: string | undefined;
  change: (value: unknown) => void;
}

/** Maximum `maxLength` of a single-line field. Texts that may be longer get a multi-line field. */
const singleLineMax = 300;

/** Shows the form field that fits a schema. */
export function SchemaField(props: FieldProps) {
  const { name, schema, error, isRequired } = props;
  const id = useId();
  const { type, description } = schema;
  if (type === 'boolean' && schema.default === undefined && !isRequired)
    return <CheckField {...props} />;
  const list = findArraySchema(schema);
  const rows = list?.items?.properties ? list : undefined;
  const control = (() => {
    if (isMedia(schema)) return <MediaField {...props} id={id} />;
    if (list?.items && isMedia(list.items))
      return <MediaListField {...props} list={list} id={id} />;
    return null;
  })();
  if (rows) return <RowsField {...props} list={rows} />;
  const choices = name === 'aspectRatio' ? listChoices(schema) : undefined;
  if (choices) return <ChipsField {...props} choices={choices} />;
  return (
    <div className="field">
      <label htmlFor={id}>{toTitle(name)}</label>
      {control ?? <PlainField {...props} id={id} />}
      {description && <span className="hint">{description}</span>}
      <FieldError error={error} />
    </div>
  );
}

function FieldError({ error }: Pick<FieldProps, 'error'>) {
  if (error === undefined) return null;
  return (
    <span className="wrong" role="alert">
      {error}
    </span>
  );
}

interface ChipsProps extends FieldProps {
  choices: readonly (string | number | boolean)[];
}

/** Shows the choices as chips. The default comes first. */
function ChipsField({ name, schema, value, change, choices, error }: ChipsProps) {
  const groupName = useId();
  const defaultChoice = choices.find((choice) => choice === schema.default);
  const otherChoices = choices.filter((choice) => choice !== defaultChoice);
  return (
    <fieldset className="chips">
      <legend>{toTitle(name)}</legend>
      {[undefined, ...otherChoices].map((choice) => (
        <label key={String(choice)} className="chip">
          <input
            type="radio"
            name={groupName}
            checked={value === choice}
            onChange={() => change(choice)}
          />
          {String(choice ?? defaultChoice ?? 'Auto')}
        </label>
      ))}
      <FieldError error={error} />
    </fieldset>
  );
}

function CheckField({ name, value, change, error }: FieldProps) {
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={value === true}
        onChange={({ target }) => change(target.checked || undefined)}
      />
      {toTitle(name)}
      <FieldError error={error} />
    </label>
  );
}

function PlainField({ schema, value, change, isRequired, id }: FieldProps & { id: string }) {
  const { type, maxLength = 0 } = schema;
  const choices = listChoices(schema);
  if (choices) return <ChoiceField {...{ schema, value, change, isRequired, id, choices }} />;
  if (type === 'integer' || type === 'number') {
    return (
      <input
        id={id}
        type="number"
        step={type === 'integer' ? 1 : 'any'}
        min={schema.minimum}
        max={schema.maximum}
        required={isRequired}
        placeholder={buildPlaceholder(schema)}
        value={typeof value === 'number' ? value : ''}
        onChange={({ target }) => change(target.value === '' ? undefined : target.valueAsNumber)}
      />
    );
  }
  if (type !== 'string') return <JsonField {...{ value, change, id }} />;
  const common = {
    id,
    required: isRequired,
    maxLength: schema.maxLength,
    placeholder: buildPlaceholder(schema),
    value: typeof value === 'string' ? value : '',
  };
  return maxLength > singleLineMax ? (
    <textarea dir="auto" {...common} onChange={({ target }) => change(target.value)} />
  ) : (
    <input dir="auto" {...common} onChange={({ target }) => change(target.value)} />
  );
}

interface ChoiceProps extends Omit<FieldProps, 'name'> {
  id: string;
  choices: readonly (string | number | boolean)[];
}

function ChoiceField({ schema, value, change, isRequired, id, choices }: ChoiceProps): ReactNode {
  const defaultValue = schema.default;
  const defaultLabel =
    defaultValue === undefined
      ? 'Model default'
      : `${JSON.stringify(defaultValue).replaceAll('"', '')} (default)`;
  return (
    <select
      id={id}
      required={isRequired}
      value={value === undefined ? '' : JSON.stringify(value)}
      onChange={({ target }) => change(target.value === '' ? undefined : JSON.parse(target.value))}
    >
      <option value="">{isRequired && defaultValue === undefined ? 'Choose' : defaultLabel}</option>
      {choices
        .filter((choice) => choice !== defaultValue)
        .map((choice) => (
          <option key={String(choice)} value={JSON.stringify(choice)}>
            {String(choice)}
          </option>
        ))}
    </select>
  );
}

function listChoices(schema: FieldSchema): readonly (string | number | boolean)[] | undefined {
  if (schema.type === 'boolean') return [true, false];
  return schema.enum ?? schema.anyOf?.find((alternative) => alternative.enum)?.enum;
}

function buildPlaceholder({ default: value, minimum, maximum }: FieldSchema): string | undefined {
  if (value !== undefined) return JSON.stringify(value);
  return minimum === undefined || maximum === undefined ? undefined : `${minimum} – ${maximum}`;
}

/** Shows a list of objects, for example the lines of a dialogue: one row of fields per object. */
function RowsField({ name, value, change, list, error }: FieldProps & { list: FieldSchema }) {
  const rows: Record<string, unknown>[] = Array.isArray(value) && value.length > 0 ? value : [{}];
  const { properties = {}, required = [] } = list.items ?? {};
  const replaceRow = (index: number, row: Record<string, unknown>): void =>
    change(rows.with(index, row));
  return (
    <fieldset>
      <legend>{toTitle(name)}</legend>
      {rows.map((row, index) => (
        <fieldset key={index}>
          {Object.entries(properties).map(([field, schema]) => (
            <SchemaField
              key={field}
              name={field}
              schema={schema}
              isRequired={required.includes(field)}
              value={row[field]}
              change={(next) => replaceRow(index, { ...row, [field]: next })}
            />
          ))}
          {rows.length > 1 && (
            <button type="button" onClick={() => change(rows.toSpliced(index, 1))}>
              Remove
            </button>
          )}
        </fieldset>
      ))}
      {rows.length < (list.maxItems ?? Infinity) && (
        <button type="button" onClick={() => change([...rows, {}])}>
          Add row
        </button>
      )}
      <FieldError error={error} />
    </fieldset>
  );
}
