/**
 * Workflow interceptor that records the commands of a workflow during a replay, with their stacks. Only the bundle of `npm
 * run replay` contains it, never that of a worker.
 */
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

/** Command that a workflow issued. */
export interface IssuedCommand {
  kind: 'activity' | 'local activity' | 'timer';
  /** Activity type, or duration of the timer. */
  name: string;
  stack: string;
}

/** Sink that receives the commands. */
export interface RecorderSinks extends Sinks {
  recorder: { issued: (command: IssuedCommand) => void };
}

/** Interceptors, under the name that the SDK requires. */
export const interceptors = (): WorkflowInterceptors => {
  const { recorder } = proxySinks<RecorderSinks>();
  const record = (kind: IssuedCommand['kind'], name: string): void => {
    recorder.issued({ kind, name, stack: String(new Error('issued').stack) });
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
