/** Playground of pipelines: recipes of several steps with one price, and the job that they start. */
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import { ApiError, newRequestKey } from '../../gateway/client.ts';
import { MostCredits } from '../../parts/amounts.tsx';
import { useDebounced } from '../../parts/debounced.ts';
import { Empty, ErrorMessage } from '../../parts/states.tsx';
import { startJob, timelineQuery, toRepeatable } from '../job/job-query.ts';
import { capabilitiesQuery } from './capabilities-query.ts';
import type { Capability, FormValues } from './capability.ts';
import { CopyAsCode } from './copy-as.tsx';
import { readDraft, storeDraft, useShownJob } from './draft.ts';
import { estimateQuery } from './estimate-query.ts';
import { JsonField } from './json-field.tsx';
import { PipelineSteps, readSteps } from './pipeline-steps.tsx';
import { Endpoints, ShownJob } from './playground.tsx';
import { Shortfall, useShortfall } from './shortfall.tsx';
import { SavedRecipes } from './saved-recipes.tsx';
import { RecentResults, useRecentJobs } from './recent-results.tsx';

const path = '/api/v1/studio/pipelines';
const type = 'pipeline';
const step = (id: string, use: string, body: FormValues) => ({ id, use, body });
const from = (id: string, field: { field?: string } = {}) => ({ $from: id, ...field });

const recipes: Record<string, FormValues> = {
  'Picture, film and voice': {
    steps: [
      step('art', 'image/generate', { prompt: 'a lighthouse at dawn', aspectRatio: '16:9' }),
      step('film', 'video/generate', {
        prompt: 'waves roll',
        durationSeconds: 4,
        imageUrl: from('art'),
      }),
      step('voice', 'voiceover/generate', { text: 'Every night it waits.', title: 'Harbour' }),
      step('cut', 'video/merge', { videoUrls: [from('film')], audioUrl: from('voice') }),
    ],
  },
  'Recording, transcript and new voice': {
    steps: [
      {
        ...step('transcript', 'audio/transcribe', { audioUrl: 'https://example.com/talk.mp3' }),
        maxCredits: 100,
      },
      {
        ...step('dub', 'voiceover/generate', {
          text: from('transcript', { field: 'text' }),
          title: 'Dubbed',
        }),
        maxCredits: 50,
      },
    ],
  },
  'Product picture, cut out and enlarged': {
    steps: [
      step('art', 'image/generate', { prompt: 'a red enamel mug on a table' }),
      step('cutout', 'image/remove-background', { imageUrl: from('art') }),
      { ...step('large', 'image/upscale', { imageUrl: from('cutout') }), maxCredits: 20 },
    ],
  },
};

/** Shows the playground of pipelines. */
export default function Pipelines() {
  const { data } = useSuspenseQuery(capabilitiesQuery);
  const jobs = useRecentJobs(type);
  const client = useQueryClient();
  const [shownId, setShownId] = useShownJob(type);
  const [body, setBody] = useState<FormValues>(
    () => readDraft(type) ?? recipes['Product picture, cut out and enlarged'] ?? {},
  );
  const [formKey, setFormKey] = useState(0);
  const change = (next: FormValues): void => {
    storeDraft(type, next);
    setBody(next);
  };
  const load = (next: FormValues): void => {
    change(next);
    setFormKey((last) => last + 1);
  };
  const choose = async (chosenId: string): Promise<void> => {
    setShownId(chosenId);
    load(toRepeatable((await client.ensureQueryData(timelineQuery(chosenId))).request));
  };
  return (
    <>
      <div className="head">
        <h1>Playground</h1>
      </div>
      <Endpoints capabilities={data.data} current="pipelines" />
      <div className="row recipes">
        {Object.entries(recipes).map(([name, recipe]) => (
          <button
            key={name}
            type="button"
            onClick={() => {
              setShownId(null);
              load(recipe);
            }}
          >
            {name}
          </button>
        ))}
      </div>
      <div className="playground">
        <div className="stack">
          <PipelineForm
            key={formKey}
            capabilities={data.data}
            body={body}
            change={change}
            onStart={setShownId}
          />
          <SavedRecipes use="pipelines" body={body} load={load} />
        </div>
        <section className="stack result" aria-label="Job" aria-live="polite">
          {shownId ? (
            <ShownJob key={shownId} jobId={shownId} />
          ) : (
            <Empty title="The result appears here">Choose a recipe, and run it.</Empty>
          )}
          {jobs && jobs.length > 0 && (
            <RecentResults
              jobs={jobs}
              currentId={shownId ?? undefined}
              choose={(id) => void choose(id)}
            />
          )}
        </section>
      </div>
    </>
  );
}

interface PipelineFormProps {
  capabilities: readonly Capability[];
  body: FormValues;
  change: (body: FormValues) => void;
  onStart: (jobId: string) => void;
}

function PipelineForm({ capabilities, body, change, onStart }: PipelineFormProps) {
  const json = useDebounced(JSON.stringify(body), 400);
  const estimate = useQuery(estimateQuery(path, json));
  const start = useMutation({
    mutationFn: () => startJob(path, body, newRequestKey()),
    onSuccess: onStart,
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    start.mutate();
  };
  const failure = start.error ?? estimate.error;
  const error = failure instanceof ApiError ? failure : null;
  const messages = new Map(error?.details.map(({ path: field, message }) => [field, message]));
  const credits = estimate.error ? undefined : estimate.data?.data.credits;
  const shortfall = useShortfall(credits);
  const steps = readSteps(body);
  const [isForm, setForm] = useState(steps !== null);
  return (
    <form className="card" aria-label="Pipeline" onSubmit={submit}>
      <Views isForm={isForm && steps !== null} canForm={steps !== null} change={setForm} />
      {isForm && steps !== null ? (
        <PipelineSteps
          capabilities={capabilities}
          steps={steps}
          messages={messages}
          change={(next) => change({ steps: next })}
        />
      ) : (
        <StepsAsJson body={body} change={change} />
      )}
      <CopyAsCode path={path} body={body} />
      <div className="run">
        <ErrorMessage error={error} />
        <Shortfall reason={shortfall} />
        <div className="price">
          <p>{credits !== undefined && <MostCredits credits={credits} />}</p>
          <button
            type="submit"
            className="primary"
            disabled={start.isPending || shortfall !== null}
          >
            {start.isPending ? 'Starting…' : shortfall ? 'Not enough credits' : 'Run'}
          </button>
        </div>
      </div>
    </form>
  );
}

interface ViewsProps {
  isForm: boolean;
  /** False if the JSON has parts that the form does not show. */
  canForm: boolean;
  change: (isForm: boolean) => void;
}

/** Shows the choice between the form and the JSON of a pipeline. */
function Views({ isForm, canForm, change }: ViewsProps) {
  return (
    <fieldset className="chips">
      <legend className="unseen">View</legend>
      {([true, false] as const).map((form) => (
        <label key={String(form)} className="chip">
          <input
            type="radio"
            name="view"
            checked={isForm === form}
            disabled={form && !canForm}
            onChange={() => change(form)}
          />
          {form ? 'Form' : 'JSON'}
        </label>
      ))}
    </fieldset>
  );
}

function StepsAsJson({ body, change }: Pick<PipelineFormProps, 'body' | 'change'>) {
  return (
    <div className="field">
      <label htmlFor="pipeline">Steps</label>
      <JsonField
        id="pipeline"
        value={body}
        change={(value) => {
          if (typeof value === 'object' && value !== null) change({ ...value });
        }}
      />
      <span className="hint">
        A step takes the result of an earlier one: <code>{'{"$from": "art"}'}</code>.
      </span>
    </div>
  );
}
