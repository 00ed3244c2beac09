/** Operators' actions on a job: check its calls with the provider, settle, cancel, redeliver, refund. */
import { Ellipsis } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { ActionButton } from '../../parts/action-button.tsx';
import { formatExact } from '../../parts/amounts.tsx';
import type { FieldReader } from '../../parts/dialog.tsx';
import { ActionMenu } from '../../parts/menu.tsx';
import { CreditsField, CreditChangeIdField } from './credit-fields.tsx';
import { OperatorDialog } from './operator-action.tsx';

/** Names of all actions. */
export const actionNames = ['reverify', 'resettle', 'cancel', 'redeliver', 'refund'] as const;
export type JobAction = (typeof actionNames)[number];

interface ActionText {
  verb: string;
  title: string;
  /** Effect of the action. */
  hint: string;
  isDangerous: boolean;
  /** Path of the request below that of the job. */
  path: string;
  body?: (read: FieldReader) => object;
}

/** Actions with their labels and effects. */
export const jobActions: Record<JobAction, ActionText> = {
  reverify: {
    verb: 'Reverify',
    title: 'Check the calls with the provider',
    hint: 'Asks the provider for the state of each call. Charges and releases nothing. If a workflow is waiting for the provider, it is signaled to check its calls now.',
    isDangerous: false,
    path: 'reverify',
  },
  resettle: {
    verb: 'Resettle',
    title: 'Settle the job based on what the provider reports',
    hint: 'Settles a job whose workflow is gone. If the provider accepted a call, a new workflow run completes the job. Otherwise the credits are released. This is not possible while the workflow runs.',
    isDangerous: true,
    path: 'resettle',
    body: (read) => ({ release: read('release') !== '' }),
  },
  cancel: {
    verb: 'Cancel',
    title: 'Cancel the job',
    hint: 'Requests cancellation from the provider. Calls that are already completed may be charged.',
    isDangerous: true,
    path: 'cancel',
  },
  redeliver: {
    verb: 'Redeliver',
    title: 'Deliver the webhook again',
    hint: 'Delivers the webhook of an ended job again, with all attempts. Its receiver may get the same event twice.',
    isDangerous: false,
    path: 'webhook/redeliver',
  },
  refund: {
    verb: 'Refund',
    title: 'Refund the job',
    hint: 'Returns charged credits of the job. Its result stays available.',
    isDangerous: true,
    path: 'refunds',
    body: (read) => ({ id: read('id'), credits: Number(read('credits')) }),
  },
};

interface JobActionsProps {
  jobId: string;
  /** True if the job has ended. */
  isDone: boolean;
  /** Charged credits that are not refunded yet. */
  refundable?: number;
  /** False if the job is known to have no webhook. */
  hasWebhook?: boolean;
  /** Action that has a button of its own; the others are in a menu. */
  recommended: JobAction;
}

/** Returns the reason why an action is not possible, or null if it is possible. */
function explainDisabled(
  name: JobAction,
  { isDone, refundable = 0, hasWebhook = true }: JobActionsProps,
): string | null {
  if (name === 'reverify') return null;
  if (name === 'resettle' || name === 'cancel') return isDone ? 'The job has ended.' : null;
  if (!isDone) return 'The job has not ended yet.';
  if (name === 'redeliver') return hasWebhook ? null : 'The job has no webhook.';
  return refundable > 0 ? null : 'No charged credits are left to refund.';
}

/** Shows the recommended action as a button, and the others in a menu. */
export function JobActions(props: JobActionsProps) {
  const { jobId, refundable = 0, recommended } = props;
  const [opened, setOpened] = useState<JobAction | null>(null);
  const others = actionNames.filter((name) => name !== recommended);
  return (
    <div className="row actions">
      <ActionButton
        disabledReason={explainDisabled(recommended, props)}
        onClick={() => setOpened(recommended)}
      >
        {jobActions[recommended].verb}
      </ActionButton>
      <ActionMenu
        label="More actions"
        actions={others.map((name) => ({
          label: jobActions[name].verb,
          hint: jobActions[name].hint,
          isDangerous: jobActions[name].isDangerous,
          disabledReason: explainDisabled(name, props),
          perform: () => setOpened(name),
        }))}
      >
        <Ellipsis aria-hidden />
      </ActionMenu>
      {opened && (
        <OperatorDialog
          {...jobActions[opened]}
          path={`/jobs/${jobId}/${jobActions[opened].path}`}
          onClose={() => setOpened(null)}
        >
          <p>{jobActions[opened].hint}</p>
          {renderFields(opened, refundable)}
        </OperatorDialog>
      )}
    </div>
  );
}

function renderFields(name: JobAction, refundable: number): ReactNode {
  if (name === 'resettle') {
    return (
      <label className="check">
        <input type="checkbox" name="release" />
        Release the credits even if the provider may still deliver
      </label>
    );
  }
  if (name !== 'refund') return null;
  return (
    <>
      <CreditsField
        required
        max={refundable}
        defaultValue={refundable}
        title={`At most ${formatExact(refundable)} credits`}
      />
      <CreditChangeIdField hint="for example the ticket number; the same id refunds only once" />
    </>
  );
}
