/**
 * Names and types of action runs that the API, the workers and the workflow share. An action run
 * performs one action of an operator on many jobs.
 */

/** Workflow type of an action run, as callers of the API name it. The workflow id is the id of the run. */
export const actionRunWorkflowType = 'bulkAction';

/** Input of the workflow of an action run. */
export interface ActionRunInput {
  bulkActionId: string;
  /** Maximum number of jobs per second. */
  perSecond: number;
}

/** Input of the step `actOnJobs`. */
export interface ActInput extends ActionRunInput {
  /** True if the workflow was canceled. */
  cancel: boolean;
}

/** State of an action run after a step, and result of its workflow. */
export interface ActionRunState {
  status: 'running' | 'completed' | 'canceled';
  action: string;
  reason: string;
  waiting: number;
  done: number;
  /** Number of jobs on which the action was not possible. */
  rejected: number;
}
