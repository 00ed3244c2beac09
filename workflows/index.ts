/**
 * Entry point of the workflow bundle. Each capability has its own workflow type, so that operators
 * can filter workflows by capability. The SDK runs the default export for every workflow type that
 * is not exported by name, so a new capability needs no change here.
 */
export { studioJob as default } from './studio-job.ts';
export { chatAnswer } from './chat-job.ts';
export { studioBulk } from './studio-bulk.ts';
export { bulkAction } from './action-run.ts';
export { webhookDelivery } from './webhook-delivery.ts';
