/** Shows states as colored words. */
import { toWords } from './names.ts';

const toneByState: Record<string, string> = {
  completed: 'good',
  delivered: 'good',
  charged: 'good',
  active: 'good',
  clean: 'good',
  failed: 'bad',
  page: 'bad',
  suspended: 'bad',
  failing: 'bad',
  gone: 'bad',
  'not clean': 'bad',
  canceled: 'mute',
  released: 'mute',
  waiting: 'mute',
  skipped: 'mute',
  revoked: 'mute',
  refunded: 'mute',
};

/** Shows a state. States that are not listed above get the color of work in progress. */
export function State({ name }: { name: string }) {
  return (
    <span className={`state ${toneByState[name.replace(/^\d+ /, '')] ?? 'busy'}`}>
      {toWords(name)}
    </span>
  );
}

interface JobStateProps {
  job: { status: string; steps: readonly { status: string }[] | null };
}

/** Shows the state of a job. A pipeline that has delivered in part shows the number of its steps. */
export function JobState({ job: { status, steps } }: JobStateProps) {
  const completed = steps?.filter((step) => step.status === 'completed').length ?? 0;
  if (!steps || status !== 'completed' || completed === steps.length)
    return <State name={status} />;
  return (
    <span className="state busy">
      {completed} of {steps.length} steps
    </span>
  );
}
