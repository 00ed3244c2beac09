/** Compares models: one prompt on up to four of them, with price and time side by side. */
import { useMutation, useQueries, useSuspenseQuery } from '@tanstack/react-query';
import { useState, type ReactNode, type SubmitEvent } from 'react';
import { newRequestKey } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { formatAmount, MostCredits } from '../../parts/amounts.tsx';
import { useDebounced } from '../../parts/debounced.ts';
import { SelectField } from '../../parts/fields.tsx';
import { formatType } from '../../parts/names.ts';
import { useQueryString } from '../../parts/query-string.ts';
import { ErrorMessage } from '../../parts/states.tsx';
import { startJob } from '../job/job-query.ts';
import { capabilitiesQuery } from './capabilities-query.ts';
import {
  buildExample,
  endpointPath,
  type Capability,
  type FieldSchema,
  type FormValues,
} from './capability.ts';
import { useDenial } from './capability-form.tsx';
import { estimateQuery } from './estimate-query.ts';
import { findModelField } from './model-picker.tsx';
import { Endpoints, ShownJob } from './playground.tsx';

const modelsMax = 4;
type Model = Capability['models'][number];

/** Shows the page that compares models. */
export default function Compare() {
  const { data } = useSuspenseQuery(capabilitiesQuery);
  const [search, change] = useQueryString();
  const comparable = data.data.filter(isComparable);
  const capability =
    comparable.find(({ type }) => type === (search.get('type') ?? 'imageGenerate')) ??
    comparable[0];
  if (!capability) return null;
  return (
    <>
      <div className="head">
        <h1>Playground</h1>
      </div>
      <Endpoints capabilities={data.data} current="compare" />
      <Comparison key={capability.type} capability={capability}>
        <SelectField
          label="Endpoint"
          options={comparable.map(({ type }) => [type, formatType(type)] as const)}
          value={capability.type}
          change={(type) => change('type', type)}
        />
      </Comparison>
    </>
  );
}

/** Returns the name of the field with the text that all models get. */
const findTextField = ({ request }: Capability): string | undefined => {
  const { properties = {} }: FieldSchema = request;
  return ['prompt', 'text'].find((name) => name in properties);
};

function findExampleText(capability: Capability): string {
  const text = buildExample(capability)[findTextField(capability) ?? ''];
  return typeof text === 'string' ? text : '';
}

/** Returns whether an endpoint has several models, and requires no file. */
function isComparable(capability: Capability): boolean {
  const { required = [] }: FieldSchema = capability.request;
  const example = buildExample(capability);
  return (
    findModelField(capability) !== undefined &&
    findTextField(capability) !== undefined &&
    required.every((name) => name in example)
  );
}

/** Builds the request of a model: the required fields of the example, the text and the model. */
function buildRequest(capability: Capability, text: string, model: Model): FormValues {
  const { required = [] }: FieldSchema = capability.request;
  const fields = Object.entries(buildExample(capability));
  return {
    ...Object.fromEntries(fields.filter(([name]) => required.includes(name))),
    [findTextField(capability) ?? 'prompt']: text,
    ...model.selectedBy,
  };
}

/** Job of a model, or the error with which it was rejected. */
interface Run {
  jobId?: string;
  error?: Error | undefined;
}

interface ComparisonProps {
  capability: Capability;
  /** Choice of the endpoint. */
  children: ReactNode;
}

function Comparison({ capability, children }: ComparisonProps) {
  const path = endpointPath(capability);
  const [text, setText] = useState(() => findExampleText(capability));
  const [chosenIds, setChosenIds] = useState(() =>
    capability.models.slice(0, 2).map(({ id }) => id),
  );
  const chosen = capability.models.filter(({ id }) => chosenIds.includes(id));
  const debounced = useDebounced(text, 350);
  const estimates = useQueries({
    queries: chosen.map((model) => ({
      ...estimateQuery(path, JSON.stringify(buildRequest(capability, debounced, model))),
      enabled: debounced !== '',
    })),
  });
  const prices = estimates.flatMap(({ data }) => (data ? [data.data.credits] : []));
  const start = useMutation({
    mutationFn: async () => {
      const runs = chosen.map(async (model): Promise<[string, Run]> => {
        const body = buildRequest(capability, text, model);
        const run = startJob(path, body, newRequestKey()).then((jobId) => ({ jobId }));
        return [model.id, await run.catch((error: Error) => ({ error }))];
      });
      return new Map(await Promise.all(runs));
    },
  });
  const denial = useDenial(capability);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    start.mutate();
  };
  return (
    <div className="stack">
      <form className="card stack" aria-label="Comparison" onSubmit={submit}>
        {children}
        <label>
          {findTextField(capability) === 'text' ? 'Text' : 'Prompt'}
          <textarea required value={text} onChange={({ target }) => setText(target.value)} />
        </label>
        <ModelChips {...{ capability, chosenIds, change: setChosenIds }} />
        <div className="price">
          <p>
            {prices.length === chosen.length && prices.length > 0 && (
              <MostCredits credits={prices.reduce((sum, price) => sum + price, 0)} />
            )}
          </p>
          <ActionButton
            type="submit"
            className="primary"
            disabled={start.isPending || chosen.length === 0}
            disabledReason={denial}
          >
            {start.isPending
              ? 'Starting…'
              : `Run ${chosen.length} ${chosen.length === 1 ? 'model' : 'models'}`}
          </ActionButton>
        </div>
      </form>
      <div className="comparison">
        {chosen.map((model, index) => {
          const { data, error } = estimates[index] ?? {};
          const run = start.data?.get(model.id) ?? { error: error ?? undefined };
          return <ModelRun key={model.id} {...{ model, run }} credits={data?.data.credits} />;
        })}
      </div>
    </div>
  );
}

interface ModelRunProps {
  model: Model;
  /** Estimated credits. Undefined while they are unknown. */
  credits: number | undefined;
  run: Run;
}

/** Shows a model with its price and usual time, and the job that it ran. */
function ModelRun({ model: { displayName, typicalSeconds }, credits, run }: ModelRunProps) {
  return (
    <section className="card stack" aria-label={displayName}>
      <h2>{displayName}</h2>
      <p className="dim">
        {credits !== undefined && `at most ${formatAmount(credits)} credits`}
        {typicalSeconds && ` · usually ${typicalSeconds} s`}
      </p>
      <ErrorMessage error={run.error ?? null} />
      {run.jobId && <ShownJob key={run.jobId} jobId={run.jobId} />}
    </section>
  );
}

interface ModelChipsProps {
  capability: Capability;
  chosenIds: readonly string[];
  change: (ids: string[]) => void;
}

/** Shows the models of an endpoint, of which up to four are chosen. */
function ModelChips({ capability, chosenIds, change }: ModelChipsProps) {
  return (
    <fieldset className="chips">
      <legend>
        Models <span className="hint">up to {modelsMax}</span>
      </legend>
      {capability.models.map(({ id, displayName }) => {
        const isChosen = chosenIds.includes(id);
        return (
          <label key={id} className="chip">
            <input
              type="checkbox"
              checked={isChosen}
              disabled={!isChosen && chosenIds.length >= modelsMax}
              onChange={() =>
                change(isChosen ? chosenIds.filter((one) => one !== id) : [...chosenIds, id])
              }
            />
            {displayName}
          </label>
        );
      })}
    </fieldset>
  );
}
