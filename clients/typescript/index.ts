/** Client of the Studio Gateway; README.md shows every verb. */
export { StudioGateway } from './client.ts';
export type { ChatAnswer, ChatDelta, ChatDone, ChatEvent, ChatRequest } from './chat.ts';
export type {
  CallOptions,
  Capability,
  Estimate,
  Input,
  Job,
  JobTicket,
  Result,
  WaitOptions,
} from './capabilities.ts';
export { StudioError, type ErrorCode, type ErrorDetail } from './errors.ts';
export type { GatewayOptions } from './transport.ts';
export type { UploadedFile, UploadOptions } from './uploads.ts';
export { verifyWebhook, type WebhookEvent } from './webhooks.ts';
export type { components, paths } from './schema.ts';
