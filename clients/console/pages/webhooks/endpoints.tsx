/** Webhook endpoints: their rows in the table of addresses, and the form that creates or changes one. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { api, unwrap, type Schemas } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import {
  ConfirmButton,
  NewSecret,
  type FieldReader,
  type RequestKeys,
} from '../../parts/dialog.tsx';
import { OverlapField, TextField } from '../../parts/fields.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { showToast } from '../../parts/toast.tsx';
import type { Address } from '../job/delivery-columns.tsx';

type Endpoint = Schemas['WebhookEndpoint'];
type EventType = Endpoint['events'][number];

const queryKey = ['timeline', 'webhook-endpoints'];
const refreshMs = 10_000;

const eventTexts: Record<EventType, string> = {
  'studio.job.started': 'A job started',
  'studio.job.awaiting_approval': 'A step waits for you',
  'studio.job.completed': 'A job is completed',
  'studio.job.failed': 'A job failed',
  'studio.job.canceled': 'A job was canceled',
  'chat.completed': 'A chat job is completed',
  'chat.failed': 'A chat job failed',
  'chat.canceled': 'A chat job was canceled',
  'studio.bulk.paused': 'A bulk job is paused',
  'studio.bulk.completed': 'A bulk job is completed',
  'studio.bulk.stopped': 'A bulk job was stopped',
  'studio.bulk.canceled': 'A bulk job was canceled',
  'account.balance.low': 'The balance is low',
  'key.limit.near': '80% of a key limit used',
  'key.limit.reached': 'Key limit reached',
  'end_user.limit.near': '80% of an end user’s limit used',
  'end_user.limit.reached': 'Limit of an end user reached',
};
const eventTypes = Object.keys(eventTexts).filter((type): type is EventType => type in eventTexts);
const newEndpoint = {
  url: '',
  events: ['studio.job.completed', 'studio.job.failed'],
  description: '',
};

/** Settings of an endpoint as the form shows them. */
type Settings = Pick<Endpoint, 'url' | 'description'> & { events: readonly string[] };

interface SettingsButtonProps {
  label: string;
  title: string;
  settings: Settings;
  save: (
    body: Pick<Endpoint, 'url' | 'description' | 'events'>,
    keyOf: RequestKeys,
  ) => Promise<unknown>;
  denial?: string | null;
}

/** Shows a button that opens the form of an endpoint. */
function SettingsButton({ label, title, settings, save, denial = null }: SettingsButtonProps) {
  const client = useQueryClient();
  const perform = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const events = eventTypes.filter((type) => read(type) === 'on');
    await save({ url: read('url'), description: read('description'), events }, keyOf);
    await client.invalidateQueries({ queryKey });
  };
  return (
    <ConfirmButton
      label={label}
      title={title}
      verb="Save"
      perform={perform}
      disabledReason={denial}
    >
      <TextField
        label="URL"
        name="url"
        hint="https"
        type="url"
        required
        maxLength={2048}
        placeholder="https://shop.example/hooks/studio"
        defaultValue={settings.url}
      />
      <TextField
        label="Description"
        name="description"
        hint="optional"
        maxLength={200}
        defaultValue={settings.description}
      />
      <fieldset className="checks">
        <legend>Events</legend>
        {eventTypes.map((type) => (
          <label key={type} className="check">
            <input type="checkbox" name={type} defaultChecked={settings.events.includes(type)} />
            {eventTexts[type]} <code className="hint">{type}</code>
          </label>
        ))}
      </fieldset>
    </ConfirmButton>
  );
}

/** Shows the button that creates an endpoint, and the secret of the new endpoint. */
export function NewEndpoint({ denial }: { denial: string | null }) {
  const [secret, setSecret] = useState<string | null>(null);
  return (
    <div>
      <SettingsButton
        label="New endpoint"
        title="New endpoint"
        settings={newEndpoint}
        denial={denial}
        save={async (body, keyOf) => {
          const params = { header: { 'Idempotency-Key': keyOf(body) } };
          const created = await unwrap(api.POST('/api/v1/webhook-endpoints', { params, body }));
          setSecret(created.data.secret);
        }}
      />
      <NewSecret title="Secret of the endpoint" secret={secret} onClose={() => setSecret(null)} />
    </div>
  );
}

/** Returns the endpoints as rows of the table of addresses; none if the user may not see them. */
export function useEndpoints(denial: string | null): Address[] {
  const { data } = useQuery({
    queryKey,
    queryFn: () => unwrap(api.GET('/api/v1/webhook-endpoints')),
    enabled: denial === null,
    refetchInterval: refreshMs,
  });
  return (data?.data ?? []).map((endpoint) => ({
    id: endpoint.endpointId,
    url: endpoint.url,
    about: <Events endpoint={endpoint} />,
    health: readHealth(endpoint),
    failingSince: endpoint.failingSince,
    last: { ...endpoint, nextAttemptAt: null, state: 'delivered' },
    action: <EndpointActions endpoint={endpoint} />,
  }));
}

const readHealth = ({ paused, failingSince, delivered }: Endpoint): string =>
  paused ? 'paused' : failingSince ? 'failing' : delivered > 0 ? 'delivered' : 'unused';

function Events({ endpoint: { events, description } }: { endpoint: Endpoint }): ReactNode {
  return (
    <details>
      <summary className="hint">
        Endpoint{description && ` “${description}”`}, {events.length} events
      </summary>
      {events.join(', ')}
    </details>
  );
}

function EndpointActions({ endpoint }: { endpoint: Endpoint }) {
  const { endpointId, url, paused, failingSince } = endpoint;
  const client = useQueryClient();
  const params = { path: { endpointId } };
  const change = (body: Partial<Pick<Endpoint, 'url' | 'events' | 'description' | 'paused'>>) =>
    unwrap(api.PATCH('/api/v1/webhook-endpoints/{endpointId}', { params, body }));
  const { mutate, isPending, error } = useMutation({
    mutationFn: (act: () => Promise<string>) => act(),
    onSuccess: showToast,
    onSettled: () => client.invalidateQueries({ queryKey: ['timeline'] }),
  });
  const renderButton = (label: string, act: () => Promise<string>): ReactNode => (
    <ActionButton disabled={isPending} aria-label={`${label} ${url}`} onClick={() => mutate(act)}>
      {label}
    </ActionButton>
  );
  return (
    <div className="row">
      {failingSince &&
        renderButton('Replay', async () => {
          const body = { since: failingSince };
          const { data } = await unwrap(
            api.POST('/api/v1/webhook-endpoints/{endpointId}/replay', { params, body }),
          );
          return `${data.replayed} webhooks are sent again`;
        })}
      {renderButton('Test', async () => {
        const { data } = await unwrap(
          api.POST('/api/v1/webhook-endpoints/{endpointId}/test', { params }),
        );
        return `Test ${data.outcome}: ${data.status ?? data.error}`;
      })}
      {renderButton(paused ? 'Resume' : 'Pause', async () => {
        await change({ paused: !paused });
        return paused ? 'Resumed' : 'Paused: events wait';
      })}
      <SettingsButton label="Change" title={`Change ${url}`} settings={endpoint} save={change} />
      <RotateButton endpoint={endpoint} />
      <DeleteButton endpoint={endpoint} />
      <ErrorMessage error={error} />
    </div>
  );
}

function RotateButton({ endpoint: { endpointId, url } }: { endpoint: Endpoint }) {
  const [secret, setSecret] = useState<string | null>(null);
  const rotate = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const body = { overlapSeconds: Number(read('overlap')) };
    const params = { path: { endpointId }, header: { 'Idempotency-Key': keyOf(body) } };
    const rotated = await unwrap(
      api.POST('/api/v1/webhook-endpoints/{endpointId}/rotate', { params, body }),
    );
    setSecret(rotated.secret);
  };
  return (
    <>
      <ConfirmButton
        label="Rotate"
        title={`Rotate the secret of ${url}`}
        verb="Rotate"
        perform={rotate}
      >
        <p>A new secret signs webhooks from now on. During the overlap, the old one signs too.</p>
        <OverlapField label="The old secret expires" />
      </ConfirmButton>
      <NewSecret title="New secret" secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}

function DeleteButton({ endpoint: { endpointId, url } }: { endpoint: Endpoint }) {
  const client = useQueryClient();
  const remove = async (): Promise<void> => {
    const params = { path: { endpointId } };
    await unwrap(api.DELETE('/api/v1/webhook-endpoints/{endpointId}', { params }));
    await client.invalidateQueries({ queryKey: ['timeline'] });
  };
  return (
    <ConfirmButton
      label="Delete"
      title={`Delete ${url}`}
      verb="Delete"
      done="Endpoint deleted"
      isDangerous
      perform={remove}
    >
      <p>Webhooks that it has not received yet are not sent any more. This cannot be undone.</p>
    </ConfirmButton>
  );
}
