/** Combines all records of a job into one list of events. */
import type { OperatorSchemas } from '../../gateway/operator.ts';
import { toWords } from '../../parts/names.ts';
import { formatAmount } from '../../parts/amounts.tsx';

type Explanation = OperatorSchemas['JobExplanation'];

/** Event in the timeline of a job. */
export interface TimelineEvent {
  id: string;
  /** Time of the event in ISO 8601. */
  time: string;
  kind: 'job' | 'ledger' | 'call' | 'notification' | 'webhook' | 'operator';
  text: string;
  detail?: string;
}

/** Lists the events of a job, oldest first. */
export function listEvents(explanation: Explanation): TimelineEvent[] {
  const { createdAt, completedAt, status, error } = explanation;
  const events: TimelineEvent[] = [
    { id: 'accepted', time: createdAt, kind: 'job', text: 'accepted' },
    ...listLedgerEvents(explanation),
    ...listCallEvents(explanation),
    ...explanation.notifications.map(
      ({ operationId, receivedAt, provider, state, deliveries }): TimelineEvent => ({
        id: `notification ${operationId}`,
        time: receivedAt,
        kind: 'notification',
        text: `${provider} sent a notification`,
        detail: deliveries === 1 ? state : `${state}, ${deliveries} times`,
      }),
    ),
    ...(explanation.webhook?.deliveries ?? []).map(
      ({
        number,
        startedAt,
        outcome,
        status: responseStatus,
        error: deliveryError,
      }): TimelineEvent => ({
        id: `webhook ${number}`,
        time: startedAt,
        kind: 'webhook',
        text: `delivery attempt ${number}: ${outcome}`,
        detail: String(responseStatus ?? deliveryError ?? ''),
      }),
    ),
    ...explanation.actions.map(({ id, createdAt: time, action, actor, reason }): TimelineEvent => ({
      id: `action ${id}`,
      time,
      kind: 'operator',
      text: `${actor}: ${toWords(action)}`,
      detail: `“${reason}”`,
    })),
  ];
  if (completedAt !== null) {
    const detail = error ? { detail: `${error.code}: ${error.message}` } : {};
    events.push({ id: 'ended', time: completedAt, kind: 'job', text: status, ...detail });
  }
  return events.toSorted((one, other) => Date.parse(one.time) - Date.parse(other.time));
}

function listLedgerEvents({ ledger }: Explanation): TimelineEvent[] {
  return ledger.map(({ sequence, createdAt, kind, postedChange, reservedChange }) => ({
    id: `ledger ${sequence}`,
    time: createdAt,
    kind: 'ledger',
    text: kind,
    detail: `${formatAmount(Math.abs(postedChange === 0 ? reservedChange : postedChange))} credits`,
  }));
}

/**
 * Lists two events of each call, its start and its state now, and two of each earlier route, whose
 * provider did not accept the call.
 */
function listCallEvents({ calls, unacceptedSubmits }: Explanation): TimelineEvent[] {
  return calls.flatMap((call) => {
    const { index, step, provider, providerEndpoint, routeIndex, begunAt, updatedAt, state } = call;
    const name = step === null ? `call ${index + 1}` : `call ${index + 1} (${step})`;
    const earlierSubmits = unacceptedSubmits.filter(
      (submit) => submit.callIndex === index && submit.routeIndex !== routeIndex,
    );
    const routes = [...Map.groupBy(earlierSubmits, (submit) => submit.routeIndex).values()];
    let sentAt = begunAt;
    const earlierEvents = routes.flatMap((submits): TimelineEvent[] => {
      const last = submits.at(-1);
      if (!last) return [];
      const id = `${name} route ${last.routeIndex}`;
      const start = startEvent({ id, time: sentAt, text: `${name} to ${last.provider}` }, [
        formatAttempts(submits.length),
      ]);
      sentAt = last.failedAt;
      const text = `${name}: not accepted by ${last.provider}`;
      const detail = formatError(last.message, last.providerErrorType);
      return [start, { id, time: last.failedAt, kind: 'call', text, detail }];
    });
    return [
      ...earlierEvents,
      startEvent({ id: name, time: sentAt, text: `${name} to ${provider}` }, [
        providerEndpoint,
        formatAttempts(call.attempts - earlierSubmits.length),
      ]),
      {
        id: `${name} now`,
        time: updatedAt,
        kind: 'call',
        text: `${name}: ${state.replaceAll('_', ' ')}`,
        detail: formatError(null, call.providerErrorType),
      },
    ];
  });
}

function startEvent(
  { id, time, text }: Pick<TimelineEvent, 'id' | 'time' | 'text'>,
  details: (string | null)[],
): TimelineEvent {
  const detail = details.filter(Boolean).join(', ');
  return { id: `${id} begun`, time, kind: 'call', text, detail };
}

function formatError(message: string | null, providerErrorType: string | null): string {
  const type = providerErrorType === null ? null : `provider’s error type: ${providerErrorType}`;
  return [message, type].filter(Boolean).join(', ');
}

function formatAttempts(count: number): string | null {
  return count > 1 ? `${count} attempts` : null;
}
