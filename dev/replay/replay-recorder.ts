/**
 * Tells what a workflow asks for while it is replayed, and from where in the code: part of the bundle only
 * of `npm run replay`, never of a worker.
 */
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

/** One thing a workflow asked for. */
export interface AskedFor {
  kind: 'activity' | 'local activity' | 'timer';
  /** Type of the activity, or the milliseconds of the timer. */
  what: string;
  stack: string;
}

/** Where it is told. */
export interface RecorderSinks extends Sinks {
  recorder: { asked: (command: AskedFor) => void };
}

/** Read by the bundle under this name. */
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
