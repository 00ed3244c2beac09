/** Defines the steps of a job, such as `submit`. */
import type { CallRoute, JobPlan, PlannedCall } from '../domain/job-plan.ts';
import { callPrefix } from './display-texts.ts';

/** Name of a step. The activity that executes the step has the same name. */
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

/** Call, and the route on which it is currently being tried. */
export interface CallOnRoute {
  call: PlannedCall;
  route: CallRoute;
}

/** Step of a job: one execution of an activity. */
export interface Step {
  name: StepName;
  /** Summary that the Temporal UI shows for the activity. */
  summary: string;
  /** Call to which the step belongs; absent if the step belongs to the whole job. */
  target?: CallOnRoute;
}

/** Creates a step of a call, with a summary such as `call 2 of 4 · fal nano-banana`. */
export function callStep(
  { plan, call, route }: CallOnRoute & { plan: JobPlan },
  name: StepName,
): Step {
  const modelLabel = plan.model ?? route.providerEndpoint;
  const summary = `${callPrefix({ plan, call })}${route.provider} ${modelLabel}`;
  return { name, summary, target: { call, route } };
}
