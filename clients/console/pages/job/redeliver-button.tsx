/** Button that delivers the webhooks of ended jobs again. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { showToast } from '../../parts/toast.tsx';

interface RedeliverButtonProps {
  jobIds: readonly string[];
  /** Step whose webhook is delivered; by default, the webhook of the end of the job. */
  step?: string | null;
  /** True while a job runs, which has no webhook to deliver again. */
  isRunning?: boolean;
  /** Webhook endpoint that receives the webhooks; by default all of each job. */
  endpointId?: string | null;
  children?: string;
}

/** Shows the button. Webhooks are delivered one after the other, oldest first. */
export function RedeliverButton(props: RedeliverButtonProps) {
  const { jobIds, step, isRunning = false, endpointId, children = 'Redeliver' } = props;
  const client = useQueryClient();
  const { isPending, error, mutate } = useMutation({
    mutationFn: async () => {
      for (const jobId of jobIds.toReversed()) {
        const query = { ...(step && { step }), ...(endpointId && { endpointId }) };
        const params = { path: { jobId }, query };
        await unwrap(api.POST('/api/v1/studio/jobs/{jobId}/webhook/redeliver', { params }));
      }
    },
    onSuccess: () => showToast('Sent again'),
    onSettled: () => client.invalidateQueries({ queryKey: ['timeline'] }),
  });
  const [jobId, ...others] = jobIds;
  return (
    <>
      <ActionButton
        disabled={isPending}
        aria-label={
          isPending || others.length > 0 ? undefined : `Redeliver the webhook of ${jobId}`
        }
        disabledReason={isRunning ? 'The job is still running.' : null}
        onClick={() => mutate()}
      >
        {isPending ? 'Sending…' : children}
      </ActionButton>
      <ErrorMessage error={error} />
    </>
  );
}
