/** One call of a plan, as the activities that make it need it. */
import type { CallRoute, JobPlan, Meter, OutputSpec, PlannedCall } from './job-plan.ts';

/** One call by one of its routes. */
export interface CallTask {
  jobId: string;
  organizationId: string;
  callIndex: number;
  routeIndex: number;
  route: CallRoute;
  output: OutputSpec;
  meter: Meter;
  quantity: number;
  /** The earlier result that the call works on, and the input field that is to name it. */
  source: { field: string; storageKey: string } | null;
  /** Attempts after which "not now" of the provider counts as "no": the next route's turn. */
  refusalsMax: number;
}

/** Which of a plan's calls, by which route, and on what. */
export interface CallChoice {
  call: PlannedCall;
  routeIndex: number;
  /** Storage key of the earlier result that the call works on, if it does. */
  inputKey?: string | undefined;
}

const refusalsMax = 4;
/** Without another route to try, a provider may take a quarter of a minute to come back. */
const lastRouteRefusalsMax = 6;

/** The task of a call; null when the plan has no such route. */
export function callTaskOf(plan: JobPlan, choice: CallChoice): CallTask | null {
  const { call, routeIndex, inputKey } = choice;
  const route = call.routes[routeIndex];
  if (!route) return null;
  return {
    jobId: plan.jobId,
    organizationId: plan.organizationId,
    callIndex: call.index,
    routeIndex,
    route,
    output: call.output,
    meter: call.meter,
    quantity: call.quantity,
    source:
      call.inputFrom && inputKey !== undefined
        ? { field: call.inputFrom.field, storageKey: inputKey }
        : null,
    refusalsMax: routeIndex === call.routes.length - 1 ? lastRouteRefusalsMax : refusalsMax,
  };
}
