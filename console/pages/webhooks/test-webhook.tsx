/** Sends a test webhook and shows what was sent and received. */
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Refusal } from '../../parts/states.tsx';
import { State, durationText } from '../../parts/values.tsx';

/** Shows the form; `refusal` is the reason why the user may not send tests, or null. */
export function TestWebhook({ refusal }: { refusal: string | null }) {
  const [url, setUrl] = useState('');
  const { data, error, isPending, mutate } = useMutation({
    mutationFn: () => answered(api.POST('/api/v1/webhooks/test', { body: { url } })),
  });
  return (
    <section className="card stack" aria-label="Test">
      <h2>Send a test</h2>
      <p className="dim">
        Sends one event of type <code>webhook.test</code>, signed with your secret.
      </p>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          mutate();
        }}
      >
        <label>
          Receiver
          <input
            type="url"
            required
            maxLength={2048}
            placeholder="https://shop.example/hooks/studio"
            value={url}
            onChange={({ target }) => setUrl(target.value)}
          />
        </label>
        <div className="row">
          <button
            type="submit"
            disabled={isPending || refusal !== null}
            title={refusal ?? undefined}
          >
            {isPending ? 'Sending…' : 'Send test'}
          </button>
        </div>
      </form>
      <Refusal error={error} />
      <div role="status">{data && <Result result={data.data} />}</div>
    </section>
  );
}

function Result({ result }: { result: Schemas['WebhookTest'] }) {
  const { outcome, status, error, response, durationMs, headers, body } = result;
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <div className="stack">
      <p>
        <State of={outcome} /> {status ?? error}{' '}
        <span className="dim">{durationMs !== null && durationText(durationMs)}</span>
      </p>
      {response && <pre className="code">{response}</pre>}
      <details>
        <summary>Request</summary>
        <pre className="code">{[...head, '', body].join('\n')}</pre>
      </details>
    </div>
  );
}
