/** What the bare workflows and whoever runs them agree on. */

/** Task queue of the bare worker. */
export const bareTaskQueue = 'bench-bare';

/** The provider of the bare workflow. */
export interface BareJob {
  jobId: string;
}
