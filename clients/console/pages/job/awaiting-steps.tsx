/** Shows the steps of a pipeline that wait for a decision: their files, their price, and the decision. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { requestJson, type Job } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { formatAmount } from '../../parts/amounts.tsx';
import { ConfirmButton } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { showToast } from '../../parts/toast.tsx';
import { MediaPlayer } from './job-result.tsx';
import { timelineQuery } from './job-query.ts';

type Awaiting = Job['awaiting'][number];
type Decision =
  | { decision: 'approve'; outputs: object; body?: object }
  | { decision: 'reject'; reason?: string };

/** Shows a card for each step that waits. */
export const AwaitingSteps = ({ job }: { job: Job }) =>
  job.awaiting.map((waiting) => <AwaitingStep key={waiting.step} job={job} waiting={waiting} />);

/** Names of the fields that hold the text of a step, in the order in which they are looked for. */
const textFields = ['prompt', 'text'] as const;

/** Reads the fields of the body of a step from the request of a job. */
function readBody(request: Record<string, unknown> | undefined, step: string) {
  const steps: unknown = request?.['steps'];
  const list: unknown[] = Array.isArray(steps) ? steps : [];
  for (const one of list) {
    if (typeof one !== 'object' || one === null || !('id' in one) || one.id !== step) continue;
    const body = 'body' in one ? one.body : null;
    return new Map<string, unknown>(Object.entries(body ?? {}));
  }
  return new Map<string, unknown>();
}

/** Returns the mutation that decides about a step. */
function useDecision(jobId: string, step: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Decision) =>
      requestJson<{ data: Job }>(`/api/v1/studio/jobs/${jobId}/steps/${step}/decision`, {
        method: 'POST',
        body,
      }),
    onSuccess(answer, { decision }) {
      client.setQueryData(['job', jobId], answer.data);
      void client.invalidateQueries({ queryKey: ['job-count'] });
      showToast(decision === 'approve' ? `${step} approved` : `${step} stopped`);
    },
  });
}

function AwaitingStep({ job: { jobId, steps }, waiting }: { job: Job; waiting: Awaiting }) {
  const { step, takes, until } = waiting;
  const { data } = useQuery(timelineQuery(jobId));
  const [chosen, setChosen] = useState<Record<string, number>>({});
  const body = readBody(data?.request, step);
  const choices = takes.filter((source) => source.chosen);
  const outputs = Object.fromEntries(
    choices.flatMap((source) => {
      const only = source.outputs.length === 1 ? source.outputs[0]?.output : undefined;
      const output = chosen[source.step] ?? only;
      return output === undefined ? [] : [[source.step, output]];
    }),
  );
  const [kind] = steps?.find(({ id }) => id === step)?.use.split('/') ?? [];
  return (
    <section className="card stack" aria-label={`Decision about ${step}`}>
      <div className="head">
        <h2>{step} waits for you</h2>
        <p className="dim">
          is skipped <RelativeTime time={until} />
        </p>
      </div>
      {takes.map((source) => (
        <Files
          key={source.step}
          source={source}
          isChoice={choices.includes(source)}
          chosen={outputs[source.step]}
          choose={(output) => setChosen({ ...chosen, [source.step]: output })}
        />
      ))}
      <Buttons
        {...{ jobId, waiting, body, outputs }}
        isIncomplete={!data || Object.keys(outputs).length < choices.length}
        scope={
          kind === 'image' ? 'studio:image' : kind === 'video' ? 'studio:video' : 'studio:audio'
        }
      />
    </section>
  );
}

interface ButtonsProps {
  jobId: string;
  waiting: Awaiting;
  body: ReadonlyMap<string, unknown>;
  outputs: Record<string, number>;
  /** True until an output is chosen of each source that needs it. */
  isIncomplete: boolean;
  scope: 'studio:image' | 'studio:video' | 'studio:audio';
}

/** Shows the text of the step, if it is changed, and the buttons that decide. */
function Buttons({ jobId, waiting, body, outputs, isIncomplete, scope }: ButtonsProps) {
  const { step, credits } = waiting;
  const [text, setText] = useState<string | null>(null);
  const decide = useDecision(jobId, step);
  const denial = useSessionKey().explainDenial(scope);
  const field = textFields.find((name) => typeof body.get(name) === 'string');
  const isChanged = field !== undefined && text !== null && text !== body.get(field);
  const change = isChanged ? { body: { [field]: text } } : {};
  return (
    <>
      {field !== undefined && text !== null && (
        <label className="field">
          {field === 'prompt' ? 'Prompt' : 'Text'}
          <textarea value={text} rows={3} onChange={({ target }) => setText(target.value)} />
        </label>
      )}
      <div className="row">
        <ActionButton
          className="primary"
          disabled={decide.isPending || isIncomplete}
          disabledReason={denial}
          onClick={() => decide.mutate({ decision: 'approve', outputs, ...change })}
        >
          {decide.isPending ? 'Approving…' : `Approve for ${formatAmount(credits)} credits`}
        </ActionButton>
        {field !== undefined && text === null && (
          <button type="button" onClick={() => setText(String(body.get(field)))}>
            Change the {field}
          </button>
        )}
        <ConfirmButton
          label="Stop here"
          title={`Stop before ${step}`}
          verb="Stop"
          isDangerous
          disabledReason={denial}
          perform={async (read) => {
            const reason = read('reason');
            await decide.mutateAsync({ decision: 'reject', ...(reason !== '' && { reason }) });
          }}
        >
          <p>What was delivered is charged. The rest of the reserved credits is released.</p>
          <TextField label="Reason" name="reason" hint="optional" maxLength={500} />
        </ConfirmButton>
      </div>
      <ErrorMessage error={decide.error} />
    </>
  );
}

interface FilesProps {
  source: Awaiting['takes'][number];
  /** True if one of the files is chosen. */
  isChoice: boolean;
  chosen: number | undefined;
  choose: (output: number) => void;
}

/** Shows the files of a step, of which one may be chosen with the mouse and the arrow keys. */
function Files({ source: { step, outputs }, isChoice, chosen, choose }: FilesProps) {
  const name = useId();
  return (
    <fieldset className="choices">
      <legend>{isChoice && outputs.length > 1 ? `Choose one of ${step}` : step}</legend>
      {outputs.map(({ output, url, contentType }) => {
        const kind = (['image', 'video', 'audio'] as const).find((one) =>
          contentType.startsWith(`${one}/`),
        );
        const media = { url, kind: kind ?? ('file' as const), caption: '', expiresAt: null };
        return (
          <label key={output} data-chosen={isChoice && chosen === output}>
            <MediaPlayer media={media} alt={`${step} ${output + 1}`} />
            {isChoice && outputs.length > 1 && (
              <span className="row">
                <input
                  type="radio"
                  name={name}
                  checked={chosen === output}
                  onChange={() => choose(output)}
                />
                {step} {output + 1}
              </span>
            )}
          </label>
        );
      })}
    </fieldset>
  );
}
