/**
 * The entry of the workflow bundle. Each capability has a workflow type of its own, so that operators can
 * filter by it; the default runs them all, so a new capability needs no worker that knows its name.
 */
export { studioJob as default } from './studio-job.ts';
export { webhookDelivery } from './webhook-delivery.ts';
