/** Compares models: one prompt on up to four of them, with price and time side by side. Chat models have a file of their own. */
import { useMutation, useQueries, useSuspenseQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { newRequestKey } from '../../gateway/client.ts';
import { formatAmount } from '../../parts/amounts.tsx';
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
  findExampleText,
  findTextField,
  type Capability,
  type FieldSchema,
  type FormValues,
} from './capability.ts';
import { useDenial } from './capability-form.tsx';
import { ChatComparison } from './compare-chat.tsx';
import { ComparisonForm, ModelChips } from './comparison-form.tsx';
import { estimateQuery } from './estimate-query.ts';
import { findModelField } from './model-picker.tsx';
import { Endpoints, ShownJob } from './playground.tsx';

type Model = Capability['models'][number];

/** Shows the page that compares models. */
export default function Compare() {
  const { data } = useSuspenseQuery(capabilitiesQuery);
  const [search, change] = useQueryString();
  const comparable = data.data.filter(isComparable);
  const shown = search.get('type') ?? 'imageGenerate';
  const capability = comparable.find(({ type }) => type === shown) ?? comparable[0];
  const endpoint = (
    <SelectField
      label="Endpoint"
      options={[
        ...comparable.map(({ type }) => [type, formatType(type)] as const),
        ['chat', 'Chat'] as const,
      ]}
      value={shown}
      change={(type) => change('type', type)}
    />
  );
  return (
    <>
      <div className="head">
        <h1>Playground</h1>
      </div>
      <Endpoints capabilities={data.data} current="compare" />
      {shown === 'chat' && <ChatComparison endpoint={endpoint} />}
      {shown !== 'chat' && capability && (
        <Comparison key={capability.type} capability={capability} endpoint={endpoint} />
      )}
    </>
  );
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
  endpoint: ReactNode;
}

function Comparison({ capability, endpoint }: ComparisonProps) {
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
  return (
    <div className="stack">
      <ComparisonForm
        label={findTextField(capability) === 'text' ? 'Text' : 'Prompt'}
        {...{ text, setText, endpoint }}
        estimates={estimates.map(({ data }) => data?.data.credits)}
        denial={useDenial(capability)}
        isPending={start.isPending}
        run={start.mutate}
      >
        <ModelChips
          models={capability.models.map(({ id, displayName }) => ({ id, name: displayName }))}
          chosenIds={chosenIds}
          change={setChosenIds}
        />
      </ComparisonForm>
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
