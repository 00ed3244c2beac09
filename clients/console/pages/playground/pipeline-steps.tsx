/** Steps of a pipeline as cards. A field takes a value of its own, or the result of an earlier step. */
import { Plus, Trash2 } from 'lucide-react';
import { formatType } from '../../parts/names.ts';
import { SelectField, TextField } from '../../parts/fields.tsx';
import {
  buildBody,
  buildOpening,
  studioPath,
  type Capability,
  type FormValues,
} from './capability.ts';
import { RequestFields } from './request-fields.tsx';
import { isObject, isReference, listSources } from './result-field.tsx';

/** Step of a pipeline: the request body of an endpoint (`use`), under an id. */
export interface Step {
  id: string;
  use: string;
  body: FormValues;
  maxCredits?: number;
  /** True, or the time for the decision, if the step waits for an approval. */
  approve?: unknown;
}

/** Returns the steps of a request body. Null if the body has parts that the cards do not show. */
export function readSteps({ steps, ...others }: FormValues): Step[] | null {
  if (!Array.isArray(steps) || Object.keys(others).length > 0) return null;
  const known = new Set(['id', 'use', 'body', 'maxCredits', 'approve']);
  const isStep = (step: unknown): step is Step =>
    isObject(step) &&
    typeof step['id'] === 'string' &&
    typeof step['use'] === 'string' &&
    isObject(step['body']) &&
    Object.keys(step).every((name) => known.has(name));
  return steps.every(isStep) ? steps : null;
}

interface StepsProps {
  capabilities: readonly Capability[];
  steps: readonly Step[];
  /** Messages of the API, by the path of the field: `steps.1.body.prompt`. */
  messages: ReadonlyMap<string, string>;
  change: (steps: readonly Step[]) => void;
}

/** Shows the steps, and a button that adds one. */
export function PipelineSteps({ capabilities, steps, messages, change }: StepsProps) {
  const find = (use: string) => capabilities.find((one) => studioPath(one) === use);
  const add = (): void => {
    const use = 'image/generate';
    const capability = find(use);
    const ids = new Set(steps.map(({ id }) => id));
    let number = steps.length + 1;
    while (ids.has(`step${number}`)) number += 1;
    change([...steps, { id: `step${number}`, use, body: capability ? openBody(capability) : {} }]);
  };
  return (
    <>
      <ol className="pipeline-steps" aria-label="Steps of the pipeline">
        {steps.map((step, index) => (
          // A step has no other identity than its place: its id is being typed.
          <li key={index}>
            <StepCard
              capabilities={capabilities}
              step={step}
              earlier={steps.slice(0, index).flatMap(({ id, use }) => {
                const capability = find(use);
                return capability ? [{ id, capability }] : [];
              })}
              messages={collectMessages(messages, index)}
              change={(next) => change(renameStep(steps, { index, step: next }))}
              remove={() => change(steps.toSpliced(index, 1))}
            />
          </li>
        ))}
      </ol>
      <button type="button" onClick={add}>
        <Plus aria-hidden /> Add a step
      </button>
    </>
  );
}

const openBody = (capability: Capability): FormValues =>
  buildBody(capability, buildOpening(capability));

/** Returns the messages of a step, by the name of its field; those of lists and objects belong to their field. */
function collectMessages(messages: ReadonlyMap<string, string>, index: number) {
  const start = `steps.${index}.`;
  const found = [...messages].filter(([path]) => path.startsWith(start));
  return new Map(
    found.map(([path, message]) => {
      const [part = '', name] = path.slice(start.length).split(/[.[]/);
      return [part === 'body' && name ? name : part, message];
    }),
  );
}

/** Replaces a step. If its id has changed, references of the other steps change with it. */
function renameStep(
  steps: readonly Step[],
  { index, step }: { index: number; step: Step },
): readonly Step[] {
  const former = steps[index]?.id;
  if (former === step.id) return steps.with(index, step);
  const rename = (_: string, value: unknown): unknown =>
    isReference(value) && value.$from === former ? { ...value, $from: step.id } : value;
  const renameIn = (body: FormValues): FormValues => JSON.parse(JSON.stringify(body, rename));
  return steps.with(index, step).map((one, place) => ({
    ...one,
    body: place > index ? renameIn(one.body) : one.body,
  }));
}

interface StepCardProps extends Omit<StepsProps, 'steps' | 'change'> {
  step: Step;
  earlier: readonly { id: string; capability: Capability }[];
  change: (step: Step) => void;
  remove: () => void;
}

function StepCard({ capabilities, step, earlier, messages, change, remove }: StepCardProps) {
  const capability = capabilities.find((one) => studioPath(one) === step.use);
  const uses = capabilities.map((one) => [studioPath(one), formatType(one.type)] as const);
  const choose = (use: string): void => {
    const chosen = capabilities.find((one) => studioPath(one) === use);
    change({ id: step.id, use, body: chosen ? openBody(chosen) : {} });
  };
  const others = ['id', 'use', 'maxCredits', 'approve', 'body'].flatMap(
    (name) => messages.get(name) ?? [],
  );
  return (
    <fieldset className="stack">
      <legend>{step.id}</legend>
      <div className="pair">
        <TextField
          label="Name"
          value={step.id}
          required
          maxLength={64}
          change={(id) => change({ ...step, id })}
        />
        <SelectField label="Does" options={uses} value={step.use} change={choose} />
      </div>
      {capability && (
        <RequestFields
          capability={capability}
          values={step.body}
          messages={messages}
          setValues={(values) => change({ ...step, body: buildBody(capability, values) })}
          sourcesOf={({ name }) =>
            listSources(capability.takes[name] ?? [], earlier, step.approve !== undefined)
          }
        />
      )}
      {others.map((message) => (
        <span key={message} className="wrong" role="alert">
          {message}
        </span>
      ))}
      <div className="row">
        <TextField
          label="Most credits of this step"
          type="number"
          min={0}
          step="any"
          placeholder="No limit of its own"
          value={step.maxCredits ?? ''}
          change={(text) => {
            const { maxCredits: _, ...rest } = step;
            change(text === '' ? rest : { ...rest, maxCredits: Number(text) });
          }}
        />
        <label className="chip">
          <input
            type="checkbox"
            checked={step.approve !== undefined}
            onChange={({ target }) => {
              const { approve: _, ...rest } = step;
              change(target.checked ? { ...rest, approve: true } : rest);
            }}
          />
          Waits for my approval
        </label>
        <button type="button" className="quiet" aria-label={`Remove ${step.id}`} onClick={remove}>
          <Trash2 aria-hidden /> Remove
        </button>
      </div>
    </fieldset>
  );
}
