/** Fields of a request: the required ones, the common ones, and the others folded away. */
import { type ReactNode } from 'react';
import {
  buildBody,
  listFields,
  type Capability,
  type Field,
  type FormValues,
} from './capability.ts';
import { SchemaField } from './fields.tsx';
import { findModelField, ModelPicker } from './model-picker.tsx';
import { ResultField, type Source } from './result-field.tsx';

interface RequestFieldsProps {
  capability: Capability;
  values: FormValues;
  setValues: (values: FormValues) => void;
  /** Validation messages of the API, by field. */
  messages: ReadonlyMap<string, string>;
  /** Lists the results of earlier steps that a field may take; none in a single request. */
  sourcesOf?: (field: Field) => readonly Source[];
}

/** Shows the fields that the chosen model of a capability accepts. */
export function RequestFields(props: RequestFieldsProps) {
  const { capability, values, setValues, messages, sourcesOf = () => [] } = props;
  const fields = listFields(capability, values);
  const body = buildBody(capability, values);
  const modelField = findModelField(capability);
  const renderFields = (group: readonly Field[]): ReactNode =>
    group.map((field) => (
      <ResultField
        key={field.name}
        field={field}
        value={values[field.name]}
        sources={sourcesOf(field)}
        change={(value) => setValues({ ...values, [field.name]: value })}
        render={(value, change) =>
          field.name === modelField ? (
            <ModelPicker {...{ capability, field, value, change }} />
          ) : (
            <SchemaField
              {...field}
              value={value}
              error={messages.get(field.name)}
              change={change}
            />
          )
        }
      />
    ));
  const { required, common, advanced } = groupFields(fields);
  const isOpen = advanced.some(({ name }) => name in body || messages.has(name));
  return (
    <>
      {renderFields(required)}
      {required.length > 0 && common.length + advanced.length > 0 && (
        <p className="optional">Optional</p>
      )}
      {renderFields(common)}
      {advanced.length > 0 && (
        <details open={isOpen}>
          <summary>Advanced</summary>
          <div className="stack">{renderFields(advanced)}</div>
        </details>
      )}
    </>
  );
}

/** Names of optional fields that are always visible. Others are listed under "Advanced". */
const commonNames = new Set([
  'model',
  'aspectRatio',
  'numImages',
  'resolution',
  'durationSeconds',
  'imageUrl',
  'endImageUrl',
  'imageUrls',
  'scaleFactor',
  'service',
  'voice',
  'mode',
  'prompt',
  'text',
  'audioUrl',
]);

/** Splits fields into required, common (always visible) and advanced (collapsed). */
function groupFields(fields: readonly Field[]) {
  const optional = fields.filter(({ isRequired }) => !isRequired);
  return {
    required: fields.filter(({ isRequired }) => isRequired),
    common: optional.filter(({ name }) => commonNames.has(name)),
    advanced: optional.filter(({ name }) => !commonNames.has(name)),
  };
}
