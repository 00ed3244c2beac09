/** The secret that signs webhooks: shown on request, and rotated after a confirmation. */
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api } from '../../gateway/client.ts';
import { Ask, Secret } from '../../parts/dialog.tsx';
import { Refusal } from '../../parts/states.tsx';
import { Moment } from '../../parts/values.tsx';

const overlaps = [
  [0, 'stops signing immediately'],
  [3600, 'signs for another hour'],
  [86_400, 'signs for another day'],
  [604_800, 'signs for another week'],
] as const;

/** Shows the secret; `refusal` is the reason why the user may not see it, or null. */
export function SigningSecret({ refusal }: { refusal: string | null }) {
  const [isAsking, setAsking] = useState(false);
  const look = useMutation({ mutationFn: () => answered(api.GET('/api/v1/webhooks/secret')) });
  const { data } = look;
  return (
    <section className="card stack">
      <h2>Signing secret</h2>
      <p className="dim">
        Webhooks are signed in the format of Standard Webhooks. Verify the signature of each webhook
        with this secret.
      </p>
      {data && (
        <>
          <Secret text={data.secret} />
          <p className="dim">
            Generation {data.generation}.
            {data.replaced.map(({ generation, retiresAt }) => (
              <span key={generation}>
                {' '}
                Generation {generation} also signs until <Moment at={retiresAt} />.
              </span>
            ))}
          </p>
        </>
      )}
      <Refusal error={look.error} />
      <div className="row">
        <button
          type="button"
          disabled={refusal !== null || look.isPending}
          title={refusal ?? undefined}
          onClick={() => (data ? look.reset() : look.mutate())}
        >
          {data ? 'Hide the secret' : 'Show the secret'}
        </button>
        <button
          type="button"
          className="danger"
          disabled={refusal !== null}
          title={refusal ?? undefined}
          onClick={() => setAsking(true)}
        >
          Rotate
        </button>
      </div>
      {refusal && <p className="hint">{refusal}</p>}
      {isAsking && <Rotate onClose={() => setAsking(false)} rotated={() => look.mutate()} />}
    </section>
  );
}

function Rotate({ onClose, rotated }: { onClose: () => void; rotated: () => void }) {
  const [overlapSeconds, setOverlap] = useState(86_400);
  const rotate = async (): Promise<void> => {
    await answered(api.POST('/api/v1/webhooks/secret/rotate', { body: { overlapSeconds } }));
    rotated();
  };
  return (
    <Ask title="Rotate secret" verb="Rotate" isDangerous act={rotate} onClose={onClose}>
      <p>
        Webhooks are signed with a new secret immediately. During the overlap the old secret also
        signs, so that you can update receivers one by one.
      </p>
      <label>
        The old secret
        <select value={overlapSeconds} onChange={({ target }) => setOverlap(Number(target.value))}>
          {overlaps.map(([seconds, text]) => (
            <option key={seconds} value={seconds}>
              {text}
            </option>
          ))}
        </select>
      </label>
    </Ask>
  );
}
