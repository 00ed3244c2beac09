/** Operators' actions on a job: check its calls with the provider, settle it, cancel it. */
import { Ellipsis } from 'lucide-react';
import { useState } from 'react';
import type { FieldReader } from '../../parts/dialog.tsx';
import { ActionMenu } from '../../parts/menu.tsx';
import { OperatorDialog } from './operator-action.tsx';

/** Actions with their labels and effects. */
export const jobActions = {
  reverify: {
    verb: 'Reverify',
    title: 'Check the calls with the provider',
    hint: 'Asks the provider for the state of each call. Charges and releases nothing. If a workflow is waiting for the provider, it is signaled to check its calls now.',
    isDangerous: false,
    requiresOpenJob: false,
  },
  resettle: {
    verb: 'Resettle',
    title: 'Settle the job based on what the provider reports',
    hint: 'Settles a job whose workflow is gone. If the provider accepted a call, a new workflow run completes the job. Otherwise the credits are released. This is not possible while the workflow runs.',
    isDangerous: true,
    requiresOpenJob: true,
    body: (read: FieldReader) => ({ release: read('release') !== '' }),
  },
  cancel: {
    verb: 'Cancel',
    title: 'Cancel the job',
    hint: 'Requests cancellation from the provider. Calls that are already completed may be charged.',
    isDangerous: true,
    requiresOpenJob: true,
  },
} as const;
/** Name of an action on a job. */
export type JobAction = keyof typeof jobActions;
const names = ['reverify', 'resettle', 'cancel'] as const satisfies readonly JobAction[];

interface JobActionsProps {
  jobId: string;
  /** True if the job has ended. */
  isDone: boolean;
  /** Action that has a button of its own; the others are in a menu. */
  recommended: JobAction;
}

/** Shows the recommended action as a button, and the others in a menu. */
export function JobActions({ jobId, isDone, recommended }: JobActionsProps) {
  const [opened, setOpened] = useState<JobAction | null>(null);
  const dialog = opened && jobActions[opened];
  const others = names.filter((name) => name !== recommended);
  return (
    <div className="row actions">
      <button type="button" onClick={() => setOpened(recommended)}>
        {jobActions[recommended].verb}
      </button>
      <ActionMenu
        label="More actions"
        actions={others.map((name) => ({
          label: jobActions[name].verb,
          hint: jobActions[name].hint,
          isDangerous: jobActions[name].isDangerous,
          disabledReason: isDone && jobActions[name].requiresOpenJob ? 'The job has ended.' : null,
          perform: () => setOpened(name),
        }))}
      >
        <Ellipsis aria-hidden />
      </ActionMenu>
      {opened && dialog && (
        <OperatorDialog
          {...dialog}
          path={`/jobs/${jobId}/${opened}`}
          onClose={() => setOpened(null)}
        >
          <p>{dialog.hint}</p>
          {opened === 'resettle' && (
            <label className="check">
              <input type="checkbox" name="release" />
              Release the credits even if the provider may still deliver
            </label>
          )}
        </OperatorDialog>
      )}
    </div>
  );
}
