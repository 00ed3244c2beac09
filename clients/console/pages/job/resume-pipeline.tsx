/** Button that resumes a pipeline, or runs it again from one of its steps. */
import { useLocation } from 'wouter';
import type { Job } from '../../gateway/client.ts';
import { formatAmount } from '../../parts/amounts.tsx';
import { ConfirmButton, type FieldReader, type RequestKeys } from '../../parts/dialog.tsx';
import { SelectField } from '../../parts/fields.tsx';
import { startJob } from './job-query.ts';

/** Shows the button for an ended pipeline. */
export function ResumePipeline({ job: { jobId, steps, done } }: { job: Job }) {
  const [, navigate] = useLocation();
  if (!steps || !done) return null;
  const open = steps.filter(({ status }) => status !== 'completed');
  const credits = open.reduce((sum, { maxCredits }) => sum + maxCredits, 0);
  const resume = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const from = read('from');
    const body = from === '' ? {} : { from };
    navigate(`/jobs/${await startJob(`/api/v1/studio/jobs/${jobId}/resume`, body, keyOf(body))}`);
  };
  return (
    <ConfirmButton
      label={
        open[0] ? `Resume from ${open[0].id} · ${formatAmount(credits)} credits` : 'Resume or fork'
      }
      className={open[0] ? 'primary' : undefined}
      title="Resume or fork the pipeline"
      verb="Start"
      perform={resume}
    >
      <p>A new job takes over the results of the other steps at the price 0.</p>
      <SelectField
        label="Run again"
        name="from"
        options={[
          ['', 'the steps that did not succeed'],
          ...steps.map(({ id }) => [id, `${id} and the steps that depend on it`] as const),
        ]}
        defaultValue=""
      />
    </ConfirmButton>
  );
}
