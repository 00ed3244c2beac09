/** Steps of a job, such as `submit`. */
import type { CallRoute, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import { callPrefix } from './display-texts.ts';

/** Name of a step, which is the name of the activity that executes it. */
export type StepName =
  | 'reserve'
  | 'submit'
  | 'adopt'
  | 'awaitResume'
  | 'check'
  | 'store'
  | 'cancel'
  | 'assemble'
  | 'charge'
  | 'release'
  | 'markVerifying';

/** A call and the route that is currently tried. */
export interface CallOnRoute {
  call: PlannedCall;
  route: CallRoute;
}

/** One execution of an activity of the job. */
export interface Step {
  name: StepName;
  /** Summary that the Temporal UI shows for the activity. */
  summary: string;
  /** Call that the step belongs to; absent if the step belongs to the whole job. */
  target?: CallOnRoute;
}

/** Creates a step of a call, with a summary such as `call 2 of 4 · fal nano-banana`. */
export function callStep(
  { plan, call, route }: CallOnRoute & { plan: JobPlan },
  name: StepName,
): Step {
  const subject = plan.model ?? route.providerEndpoint;
  const summary = `${callPrefix({ plan, call })}${route.provider} ${subject}`;
  return { name, summary, target: { call, route } };
}
