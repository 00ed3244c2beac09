/** Client of the Studio Gateway (README.md). */
export { createBrowserClient, type BrowserClientOptions, type BrowserToken } from './browser.ts';
export { StudioGateway } from './client.ts';
export type {
  BulkItem,
  BulkItems,
  BulkJob,
  BulkJobs,
  BulkOptions,
  BulkResult,
  BulkTicket,
} from './bulk.ts';
export type { ChatAnswer, ChatDelta, ChatDone, ChatEvent, ChatRequest } from './chat.ts';
export type {
  CallOptions,
  Capability,
  CompletedJob,
  Estimate,
  Input,
  ItemsDecision,
  Job,
  JobTicket,
  ResumeOptions,
  Result,
  SignalOption,
  StepDecision,
  WaitOptions,
} from './capabilities.ts';
export { StudioError, type ErrorCode, type ErrorDetail } from './errors.ts';
export type {
  FileFilter,
  JobFilter,
  RequestFilter,
  RequestRecord,
  StoredFile,
  UsageFilter,
  UsageRecord,
} from './lists.ts';
export type { ConnectionOptions, KeySource } from './connection.ts';
export type { GatewayOptions } from './transport.ts';
export type { UploadedFile, UploadOptions } from './uploads.ts';
export { verifyWebhook, type WebhookEvent } from './webhooks.ts';
export type { components, paths } from './schema.ts';
