import { archives } from './admin/admin-archive.ts';
import { operators } from './admin/admin-operators.ts';
import { credits } from './admin/admin-credits.ts';
import { explainedBulks } from './admin/admin-bulks.ts';
import { actionRunEndpoints } from './admin/admin-action-runs.ts';
import { endUserSettings } from './end-user-settings.ts';
import { endUserTokens } from './end-user-tokens.ts';
import { docs, operatorsDocs } from './docs.ts';
import { jobActionEndpoints } from './admin/admin-job-actions.ts';
import { jobExplanation } from './admin/admin-job-explanation.ts';
import { jobs } from './admin/admin-jobs.ts';
import { keys } from './admin/admin-keys.ts';
import { ledger } from './admin/admin-ledger.ts';
import { organizations } from './admin/admin-organizations.ts';
import { outcomes } from './admin/admin-outcomes.ts';
import { priceRows } from './admin/admin-prices.ts';
import { overview } from './admin/admin-overview.ts';
import { providers } from './admin/admin-providers.ts';
import { refunds } from './admin/admin-refunds.ts';
import { temporalCodec } from './admin/temporal-codec.ts';
import { users } from './admin/admin-users.ts';
import { webhooks } from './admin/admin-webhooks.ts';
import { anthropic } from './anthropic/messages.ts';
import { noticeEndpoints } from './account-notices.ts';
import { apiKeys, ownKey } from './api-keys.ts';
import { callerWebhooks } from './caller-webhooks.ts';
import { chat, chats } from './chat-completions.ts';
import { consolePages } from './console.ts';
import { files } from './files.ts';
import { health } from './health.ts';
import { providerNotifications } from './provider-notifications.ts';
import { mcp } from './mcp.ts';
import { models } from './model-list.ts';
import { openai } from './openai/index.ts';
import type { Endpoint } from './endpoint.ts';
import { pricing } from './pricing.ts';
import { sessionEndpoints } from './session.ts';
import { shareLinks } from './result-sharing.ts';
import { storedFiles } from './storage-files.ts';
import { uploadUrls } from './upload-urls.ts';
import { jobEvents } from './job-events.ts';
import { bulkJobs } from './bulk-jobs.ts';
import { studioJobs } from './studio-jobs.ts';
import { studioModels } from './studio-models.ts';
import { resumePipelines, studio } from './studio.ts';
import { uploads } from './file-uploads.ts';
import { recipeEndpoints } from './recipes.ts';
import { requests } from './requests.ts';
import { usageFeed } from './usage-feed.ts';
import { usageSummary } from './usage-summary.ts';
import { usage } from './usage.ts';
import { webhookEndpoints } from './webhook-endpoints.ts';
import { webhookSecret, webhookTest } from './webhook-secret.ts';

/** All endpoints of the API, in the order in which the API reference lists them. */
export const endpoints: readonly Endpoint[] = [
  ...chat,
  ...chats,
  ...anthropic,
  ...models,
  ...studio,
  ...resumePipelines,
  ...recipeEndpoints,
  ...studioModels,
  ...pricing,
  ...jobEvents,
  ...studioJobs,
  ...shareLinks,
  ...bulkJobs,
  ...callerWebhooks,
  ...webhookTest,
  ...webhookEndpoints,
  ...openai,
  ...webhookSecret,
  ...noticeEndpoints,
  ...uploadUrls,
  ...storedFiles,
  ...apiKeys,
  ...ownKey,
  ...endUserSettings,
  ...endUserTokens,
  ...sessionEndpoints,
  ...usage,
  ...usageSummary,
  ...usageFeed,
  ...requests,
  ...organizations,
  ...users,
  ...keys,
  ...credits,
  ...priceRows,
  ...ledger,
  ...archives,
  ...jobs,
  ...jobActionEndpoints,
  ...actionRunEndpoints,
  ...jobExplanation,
  ...refunds,
  ...webhooks,
  ...overview,
  ...outcomes,
  ...explainedBulks,
  ...providers,
  ...operators,
  ...operatorsDocs,
  ...health,
  ...docs,
  ...consolePages,
  files,
  uploads,
  providerNotifications,
  mcp,
  ...temporalCodec,
];
