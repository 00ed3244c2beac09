/** Button that redelivers the webhook of a job. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { showToast } from '../../parts/toast.tsx';

/** Shows a Redeliver button, which is disabled until the job ends. */
export function RedeliverButton({ jobId, state }: { jobId: string; state: string }) {
  const client = useQueryClient();
  const params = { path: { jobId } };
  const { isPending, error, mutate } = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/studio/jobs/{jobId}/webhook/redeliver', { params })),
    onSuccess: () => showToast('Webhook sent again'),
    onSettled: () => client.invalidateQueries({ queryKey: ['timeline'] }),
  });
  return (
    <>
      <ActionButton
        disabled={isPending}
        aria-label={isPending ? undefined : `Redeliver the webhook of ${jobId}`}
        disabledReason={state === 'waiting' ? 'The job is still running.' : null}
        onClick={() => mutate()}
      >
        {isPending ? 'Sending…' : 'Redeliver'}
      </ActionButton>
      <ErrorMessage error={error} />
    </>
  );
}
