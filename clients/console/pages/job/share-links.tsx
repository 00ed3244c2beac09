/** Share links of a job: creates one, lists them, revokes one. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, requestJson, unwrap, type Job, type Schemas } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ConfirmButton, NewSecret } from '../../parts/dialog.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { showToast } from '../../parts/toast.tsx';

/** Lifetimes that the dialog offers, in days. */
const lifetimes = [1, 7, 30, 90];
const viewerDenial = 'A viewer may not share results.';

/** Shows the links of a completed job, or nothing if it has no result to share. */
export function ShareLinks({ job: { jobId, type, status, result } }: { job: Job }) {
  const client = useQueryClient();
  const [url, setUrl] = useState<string | null>(null);
  const denial = useSessionKey().role === 'viewer' ? viewerDenial : null;
  const canShare = status === 'completed' && result !== null && type !== 'chat';
  const queryKey = ['shares', jobId];
  const { data, error } = useQuery({
    queryKey,
    queryFn: () => unwrap(api.GET('/api/v1/studio/shares', { params: { query: { jobId } } })),
    enabled: canShare,
  });
  if (!canShare) return null;
  const refresh = (): void => void client.invalidateQueries({ queryKey });
  return (
    <section className="card stack">
      <div className="head">
        <h2>Share links</h2>
        <ConfirmButton
          label="Share"
          title="Share the result"
          verb="Create the link"
          disabledReason={denial}
          perform={async (read, keyOf) => {
            const body = { expiresInSeconds: Number(read('days')) * 86_400 };
            const { data: created } = await requestJson<{ data: { url: string } }>(
              `/api/v1/studio/jobs/${jobId}/share`,
              { method: 'POST', body, idempotencyKey: keyOf(body) },
            );
            setUrl(created.url);
            refresh();
          }}
        >
          <p>Everybody with the link sees the result, but neither the request nor its price.</p>
          <label className="field">
            Ends after
            <select name="days" defaultValue={7}>
              {lifetimes.map((days) => (
                <option key={days} value={days}>
                  {days === 1 ? '1 day' : `${days} days`}
                </option>
              ))}
            </select>
          </label>
        </ConfirmButton>
      </div>
      <NewSecret title="Share link" secret={url} onClose={() => setUrl(null)} />
      <ErrorMessage error={error} />
      {data?.data.map((link) => (
        <ShareLinkRow key={link.shareId} link={link} denial={denial} refresh={refresh} />
      ))}
    </section>
  );
}

interface RowProps {
  link: Schemas['ShareLink'];
  denial: string | null;
  refresh: () => void;
}

function ShareLinkRow({ link, denial, refresh }: RowProps) {
  const { shareId, createdAt, expiresAt, revokedAt, openings } = link;
  const revoke = useMutation({
    mutationFn: () =>
      unwrap(api.DELETE('/api/v1/studio/shares/{shareId}', { params: { path: { shareId } } })),
    onSuccess() {
      refresh();
      showToast('Share link revoked');
    },
  });
  return (
    <div className="row">
      <span>
        Created <RelativeTime time={createdAt} />, opened{' '}
        {openings === 1 ? 'once' : `${openings} times`}, {revokedAt ? 'revoked ' : 'ends '}
        <RelativeTime time={revokedAt ?? expiresAt} />
      </span>
      {!revokedAt && (
        <ConfirmButton
          label="Revoke"
          title="Revoke the share link"
          verb="Revoke"
          isDangerous
          disabledReason={denial}
          perform={() => revoke.mutateAsync()}
        >
          <p>The link no longer shows the result.</p>
        </ConfirmButton>
      )}
    </div>
  );
}
