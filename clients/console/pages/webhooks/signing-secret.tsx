/** Secret that signs webhooks, with buttons to show and rotate it. */
import { useMutation } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { ConfirmButton, Secret, type FieldReader, type RequestKeys } from '../../parts/dialog.tsx';
import { OverlapField } from '../../parts/fields.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { DateTime } from '../../parts/times.tsx';

/** Shows the signing secret. `denial` is the reason why the user may not see it, or null. */
export function SigningSecret({ denial }: { denial: string | null }) {
  const { data, error, isPending, mutate, reset } = useMutation({
    mutationFn: () => unwrap(api.GET('/api/v1/webhooks/secret')),
  });
  const rotate = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const body = { overlapSeconds: Number(read('overlap')) };
    const params = { header: { 'Idempotency-Key': keyOf(body) } };
    await unwrap(api.POST('/api/v1/webhooks/secret/rotate', { params, body }));
    mutate();
  };
  return (
    <section className="card stack">
      <h2>Signing secret</h2>
      <p className="dim">
        Webhooks that no endpoint receives are signed with this secret, as specified by Standard
        Webhooks.
      </p>
      {data && (
        <>
          <Secret text={data.secret} />
          <p className="dim">
            Secret number {data.generation}.
            {data.replaced.map(({ generation, retiresAt }) => (
              <span key={generation}>
                {' '}
                Secret number {generation} also signs until <DateTime time={retiresAt} />.
              </span>
            ))}
          </p>
        </>
      )}
      <ErrorMessage error={error} />
      <div className="row">
        <ActionButton
          disabledReason={denial}
          disabled={isPending}
          onClick={() => (data ? reset() : mutate())}
        >
          {data ? 'Hide the secret' : 'Show the secret'}
        </ActionButton>
        <ConfirmButton
          title="Rotate secret"
          verb="Rotate"
          done="Secret rotated"
          isDangerous
          perform={rotate}
          disabledReason={denial}
        >
          <p>
            A new secret signs webhooks from now on. During the overlap, the old secret signs them
            too, so that you can update your receivers one by one.
          </p>
          <OverlapField label="The old secret expires" />
        </ConfirmButton>
      </div>
      {denial && <p className="hint">{denial}</p>}
    </section>
  );
}
