/** The form of one endpoint. What is typed is kept while the browser's tab is open. */
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useDeferredValue, useEffect, useState, type FormEvent } from 'react';
import { ApiError, ask, type Schemas } from '../../gateway/client.ts';
import { useWho } from '../../gateway/session.ts';
import { Refusal } from '../../parts/states.tsx';
import { Credits } from '../../parts/values.tsx';
import { bodyOf, fieldsOf, type Capability, type Values } from './capability.ts';
import { CopyAs } from './copy-as.tsx';
import { SchemaField } from './fields.tsx';

interface CapabilityFormProps {
  capability: Capability;
  /** Told the id of a job that has begun. */
  follow: (jobId: string) => void;
}

/** Where what is typed for an endpoint is kept; "run again" puts a job's request there. */
export const draftPlace = (type: string): string => `draft ${type}`;

/** Asks for the inputs of a capability and starts jobs. */
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
  return (
    <form onSubmit={submit} className="card" aria-label={capability.type}>
      {fields.map((field) => (
        <SchemaField
          key={field.name}
          {...field}
          value={values[field.name]}
          wrong={wrong.get(field.name)}
          change={(value) => setValues({ ...values, [field.name]: value })}
        />
      ))}
      <Refusal error={unplaced} />
      <RunRow
        capability={capability}
        body={body}
        required={fields.filter(({ isRequired }) => isRequired).map(({ name }) => name)}
        isPending={run.isPending}
      />
      <CopyAs path={path} body={body} />
    </form>
  );
}

const pathOf = ({ endpoint }: Capability): string => endpoint.replace(/^POST /, '');

/** The estimate of what is in the form now, and the button. */
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
            credits at most
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

/** The text once it has not changed for a while. */
function useSettled(text: string, quietMs: number): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), quietMs);
    return () => clearTimeout(timer);
  }, [text, quietMs]);
  return settled;
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

/** What was said of each field: of `inputs.0.text` it is said at `inputs`. */
function wrongFields(error: Error | null): Map<string, string> {
  const fields = error instanceof ApiError ? error.fields : [];
  return new Map(fields.map(({ path, message }) => [path.split(/[.[]/)[0] ?? path, message]));
}
