/**
 * Entry of the workflow bundle. Each capability is a workflow type, so that operators can filter by
 * it. The default export runs all types, so a new capability needs no new worker code.
 */
export { studioJob as default } from './studio-job.ts';
export { webhookDelivery } from './webhook-delivery.ts';
