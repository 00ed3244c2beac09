/** Reads the rows of a job’s timeline, as the Temporal UI draws them from its history. */
import { defaultPayloadConverter } from '@temporalio/common';
import type { Client } from '@temporalio/client';

/** A row of the timeline. */
export interface TimelineRow {
  /** A `local` step ended in its first attempt, an `activity` went through a queue; a `signal` came from outside. */
  kind: 'local' | 'activity' | 'signal' | 'timer' | 'child';
  name: string;
  summary: string | null;
  /** The result of the step; undefined unless it succeeded. */
  result: unknown;
}

/** Waits until the job’s workflow has ended in any way, and returns its rows in order. */
export async function readTimeline(client: Client, jobId: string): Promise<TimelineRow[]> {
  const handle = client.workflow.getHandle(jobId);
  await handle.result().catch(() => {});
  const { events } = await handle.fetchHistory();
  const results = new Map<string, unknown>();
  for (const event of events ?? []) {
    const done = event.activityTaskCompletedEventAttributes;
    if (done) results.set(String(done.scheduledEventId), decode(done.result?.payloads?.[0]));
  }
  return (events ?? []).flatMap((event): TimelineRow[] => {
    const summary = (decode(event.userMetadata?.summary) as string | undefined) ?? null;
    const row = (kind: TimelineRow['kind'], name: string, result?: unknown): TimelineRow[] => [
      { kind, name, summary, result },
    ];
    const marker = event.markerRecordedEventAttributes;
    if (marker?.markerName === 'core_local_activity') {
      const data = marker.details?.['data']?.payloads?.[0]?.data ?? new Uint8Array();
      const { activity_type: name } = JSON.parse(Buffer.from(data).toString()) as {
        activity_type: string;
      };
      return row('local', name, decode(marker.details?.['result']?.payloads?.[0]));
    }
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) {
      return row(
        'activity',
        scheduled.activityType?.name ?? '',
        results.get(String(event.eventId)),
      );
    }
    const signaled = event.workflowExecutionSignaledEventAttributes;
    if (signaled) return row('signal', signaled.signalName ?? '');
    if (event.timerStartedEventAttributes) return row('timer', 'timer');
    const child = event.startChildWorkflowExecutionInitiatedEventAttributes;
    return child ? row('child', child.workflowType?.name ?? '') : [];
  });
}

function decode(
  payload: Parameters<typeof defaultPayloadConverter.fromPayload>[0] | null | undefined,
) {
  return payload ? defaultPayloadConverter.fromPayload(payload) : undefined;
}

/** Returns a text for each row, such as `reserve` or `activity submit`, but none for timers, which the UI draws inside the waits. */
export function listSteps(rows: readonly TimelineRow[]): string[] {
  return rows
    .filter(({ kind }) => kind !== 'timer')
    .map(({ kind, name }) => (kind === 'local' ? name : `${kind} ${name}`));
}
