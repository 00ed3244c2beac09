/** The form of one endpoint. The browser keeps its values while the tab is open. */
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState, type FormEvent, type ReactNode } from 'react';
import { ApiError, ask, type Schemas } from '../../gateway/client.ts';
import { useWho } from '../../gateway/session.ts';
import { useSettled } from '../../parts/settled.ts';
import { Refusal } from '../../parts/states.tsx';
import { typeText } from '../../parts/names.ts';
import { Credits, Money } from '../../parts/values.tsx';
import { bodyOf, fieldsOf, type Capability, type Field, type Values } from './capability.ts';
import { CopyAs } from './copy-as.tsx';
import { SchemaField } from './fields.tsx';

interface CapabilityFormProps {
  capability: Capability;
  /** Receives the id of a job that has started. */
  follow: (jobId: string) => void;
}

/**
 * Returns the session storage key of the form values of an endpoint; "Run again" stores a job's
 * request under it.
 */
export const draftPlace = (type: string): string => `draft ${type}`;

/** Shows the fields of a capability and starts jobs. */
export function CapabilityForm({ capability, follow }: CapabilityFormProps) {
  const [values, setValues] = useDraft(capability);
  const path = pathOf(capability);
  const body = bodyOf(capability, values);
  const run = useMutation({
    mutationFn: () =>
      ask<{ data: Schemas['JobTicket'] }>(path, { method: 'POST', body: { ...body, async: true } }),
    onSuccess: ({ data }) => follow(data.jobId),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    run.mutate();
  };
  const wrong = wrongFields(run.error);
  const fields = fieldsOf(capability, values);
  const unplaced = run.error && !fields.some(({ name }) => wrong.has(name)) ? run.error : null;
  const show = (shown: readonly Field[]): ReactNode =>
    shown.map((field) => (
      <SchemaField
        key={field.name}
        {...field}
        value={values[field.name]}
        wrong={wrong.get(field.name)}
        change={(value) => setValues({ ...values, [field.name]: value })}
      />
    ));
  const { required, common, advanced } = grouped(fields);
  const isOpen = advanced.some(({ name }) => name in body || wrong.has(name));
  return (
    <form onSubmit={submit} className="card" aria-label={typeText(capability.type)}>
      {show(required)}
      {common.length + advanced.length > 0 && <p className="optional">Optional</p>}
      {show(common)}
      {advanced.length > 0 && (
        <details open={isOpen}>
          <summary>Advanced</summary>
          <div className="stack">{show(advanced)}</div>
        </details>
      )}
      <CopyAs path={path} body={body} />
      <div className="run">
        <Refusal error={unplaced} />
        <RunRow
          capability={capability}
          body={body}
          required={required.map(({ name }) => name)}
          isPending={run.isPending}
        />
      </div>
    </form>
  );
}

/** Optional fields that are always visible; the others are folded. */
const commonNames = new Set([
  'model',
  'aspectRatio',
  'numImages',
  'resolution',
  'durationSeconds',
  'imageUrl',
  'imageUrls',
  'scaleFactor',
  'service',
  'voice',
  'mode',
  'prompt',
  'text',
  'audioUrl',
  'fileId',
]);

/** Groups fields: required, optional and always visible, and folded. */
function grouped(fields: readonly Field[]) {
  const optional = fields.filter(({ isRequired }) => !isRequired);
  return {
    required: fields.filter(({ isRequired }) => isRequired),
    common: optional.filter(({ name }) => commonNames.has(name)),
    advanced: optional.filter(({ name }) => !commonNames.has(name)),
  };
}

const pathOf = ({ endpoint }: Capability): string => endpoint.replace(/^POST /, '');

/** Shows the price of the values in the form, and the button. */
function RunRow({
  capability,
  body,
  required,
  isPending,
}: {
  capability: Capability;
  body: Values;
  /** Names of the fields without which there is no price. */
  required: readonly string[];
  isPending: boolean;
}) {
  const refusal = useRefusal(capability);
  const asked = useDeferredValue(JSON.stringify(body));
  const slow = useSettled(asked, 350);
  const priced: Values = JSON.parse(slow);
  const { data, error } = useQuery({
    queryKey: ['estimate', capability.type, slow],
    queryFn: () =>
      ask<{ data: Schemas['StudioEstimate'] }>(`${pathOf(capability)}/estimate`, {
        method: 'POST',
        body: priced,
      }),
    enabled: slow !== '{}' && required.every((name) => name in priced) && refusal === null,
    placeholderData: keepPreviousData,
  });
  return (
    <div className="price">
      <p>
        {data && !error ? (
          <>
            <strong>
              <Credits amount={data.data.credits} />
            </strong>{' '}
            credits at most <Money credits={data.data.credits} />
          </>
        ) : (
          <span className="dim">{refusal ?? 'The price appears when the form is complete.'}</span>
        )}
      </p>
      <button
        type="submit"
        className="primary"
        disabled={isPending || refusal !== null}
        title={refusal ?? undefined}
      >
        {isPending ? 'Starting…' : 'Generate'}
      </button>
    </div>
  );
}

function useRefusal({ scope }: Capability): string | null {
  const who = useWho();
  // oxlint-disable-next-line no-unsafe-type-assertion -- the scopes of endpoints are scopes of keys
  return who.refuses(scope as Parameters<typeof who.refuses>[0]);
}

function useDraft({ type }: Capability): [Values, (values: Values) => void] {
  const place = draftPlace(type);
  const [values, setValues] = useState<Values>(() =>
    JSON.parse(sessionStorage.getItem(place) ?? '{}'),
  );
  return [
    values,
    (next) => {
      sessionStorage.setItem(place, JSON.stringify(next));
      setValues(next);
    },
  ];
}

/**
 * Maps each rejected field to its message; the message about `inputs.0.text` belongs to `inputs`.
 */
function wrongFields(error: Error | null): Map<string, string> {
  const fields = error instanceof ApiError ? error.fields : [];
  return new Map(fields.map(({ path, message }) => [path.split(/[.[]/)[0] ?? path, message]));
}
