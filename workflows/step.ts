/** One step of a job, such as `submit`. */
import type { CallRoute, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import { callPrefix } from './row-texts.ts';

/** Steps of a job; each is a row of its timeline. */
export type Verb =
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

/** Call of a step, by one of its routes. */
export interface StepCall {
  call: PlannedCall;
  route: CallRoute;
}

/** One step. */
export interface Step {
  verb: Verb;
  /** Text of the step's row in the Temporal UI. */
  summary: string;
  /** Call of the step; absent for a step of the whole job. */
  of?: StepCall;
}

/** Makes a step of a call with the text of its row: `call 2 of 4 · fal nano-banana`. */
export function stepOf({ plan, call, route }: StepCall & { plan: JobPlan }, verb: Verb): Step {
  const subject = plan.model ?? route.providerEndpoint;
  const summary = `${callPrefix({ plan, call })}${route.provider} ${subject}`;
  return { verb, summary, of: { call, route } };
}
