/** The events of a job from all records, in one order. */
import type { OperatorSchemas } from '../../gateway/operator.ts';
import { toWords } from '../../parts/names.ts';
import { amountText } from '../../parts/amounts.tsx';

type Story = OperatorSchemas['ExplainedJob'];

/** Event of a job. */
export interface StoryEvent {
  id: string;
  /** Time of the event in ISO 8601. */
  at: string;
  kind: 'job' | 'ledger' | 'call' | 'notification' | 'webhook' | 'operator';
  text: string;
  detail?: string;
}

/** Lists the events, oldest first; events of the same time in the order of their kinds. */
export function listEvents(story: Story): StoryEvent[] {
  const { createdAt, completedAt, status, error } = story;
  const events: StoryEvent[] = [
    { id: 'accepted', at: createdAt, kind: 'job', text: 'accepted' },
    ...ledgerEvents(story),
    ...callEvents(story),
    ...story.notifications.map(
      ({ operationId, receivedAt, provider, state, deliveries }): StoryEvent => ({
        id: `notification ${operationId}`,
        at: receivedAt,
        kind: 'notification',
        text: `${provider} sent its notification`,
        detail: deliveries === 1 ? state : `${state}, ${deliveries} times`,
      }),
    ),
    ...(story.webhook?.deliveries ?? []).map(
      ({ number, startedAt, outcome, status: answer, error: why }): StoryEvent => ({
        id: `webhook ${number}`,
        at: startedAt,
        kind: 'webhook',
        text: `attempt ${number}: ${outcome}`,
        detail: String(answer ?? why ?? ''),
      }),
    ),
    ...story.actions.map(({ id, createdAt: at, action, actor, reason }): StoryEvent => ({
      id: `action ${id}`,
      at,
      kind: 'operator',
      text: `${actor}: ${toWords(action)}`,
      detail: `“${reason}”`,
    })),
  ];
  if (completedAt !== null) {
    const detail = error ? { detail: `${error.code}: ${error.message}` } : {};
    events.push({ id: 'ended', at: completedAt, kind: 'job', text: status, ...detail });
  }
  return events.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

function ledgerEvents({ ledger }: Story): StoryEvent[] {
  return ledger.map(({ sequence, createdAt, kind, postedChange, reservedChange }) => ({
    id: `ledger ${sequence}`,
    at: createdAt,
    kind: 'ledger',
    text: kind,
    detail: `${amountText(Math.abs(postedChange === 0 ? reservedChange : postedChange))} credits`,
  }));
}

function callEvents({ calls }: Story): StoryEvent[] {
  return calls.flatMap(
    ({ index, provider, providerEndpoint, begunAt, updatedAt, state, attempts }) => {
      const name = `call ${index + 1}`;
      const begun: StoryEvent = {
        id: `${name} begun`,
        at: begunAt,
        kind: 'call',
        text: `${name} to ${provider}`,
        detail: [providerEndpoint, attempts > 1 ? `${attempts} attempts` : null]
          .filter(Boolean)
          .join(', '),
      };
      const now: StoryEvent = {
        id: `${name} now`,
        at: updatedAt,
        kind: 'call',
        text: `${name}: ${state.replaceAll('_', ' ')}`,
      };
      return [begun, now];
    },
  );
}
