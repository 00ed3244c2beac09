/**
 * Entry of the workflow bundle. Each capability has its own workflow type, so that operators can
 * filter workflows by capability. The SDK calls the default export for every type without an export
 * of its own, so a new capability needs no change here.
 */
export { studioJob as default } from './studio-job.ts';
export { webhookDelivery } from './webhook-delivery.ts';
