/**
 * Records the commands of a workflow during a replay, with their places in the code. It is part of
 * the bundle of `npm run replay` only, never of a worker's bundle.
 */
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

/** Command that a workflow issued. */
export interface AskedFor {
  kind: 'activity' | 'local activity' | 'timer';
  /** Type of the activity, or the milliseconds of the timer. */
  what: string;
  stack: string;
}

/** Receiver of the commands. */
export interface RecorderSinks extends Sinks {
  recorder: { asked: (command: AskedFor) => void };
}

/** Name that the bundle imports. */
export const interceptors = (): WorkflowInterceptors => {
  const { recorder } = proxySinks<RecorderSinks>();
  const record = (kind: AskedFor['kind'], what: string): void => {
    recorder.asked({ kind, what, stack: String(new Error('asked').stack) });
  };
  return {
    outbound: [
      {
        scheduleActivity(input, next) {
          record('activity', input.activityType);
          return next(input);
        },
        scheduleLocalActivity(input, next) {
          record('local activity', input.activityType);
          return next(input);
        },
        startTimer(input, next) {
          record('timer', `${input.durationMs} ms`);
          return next(input);
        },
      },
    ],
  };
};
