/** The OpenAPI 3.1 document of the whole API, made from the schemas that validate (spec §9). */
import { stringify } from 'yaml';
import { createDocument, type ZodOpenApiObject } from 'zod-openapi';
import { accountOperations } from './account-operations.ts';
import { chatOperations } from './chat-operations.ts';
import { jobOperations } from './job-operations.ts';
import { describeOperation, type Operation } from './operation.ts';
import { storageOperations } from './storage-operations.ts';
import { studioModelOperations } from './studio-model-operations.ts';
import { studioOperations } from './studio-operations.ts';
import { webhookDescriptions, webhookOperations } from './webhook-operations.ts';

/** Every operation, in the order of the reference page. */
export const operations: readonly Operation[] = [
  ...chatOperations,
  ...studioOperations,
  ...studioModelOperations,
  ...jobOperations,
  ...webhookOperations,
  ...storageOperations,
  ...accountOperations,
];

/** The document in both spellings; it never changes while a process runs. */
export interface OpenApiDocument {
  json: string;
  yaml: string;
}

/** Builds the document for an API that is reached at `baseUrl`. */
export function buildDocument(baseUrl: string): OpenApiDocument {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method]: describeOperation(operation),
    };
  }
  const described: ZodOpenApiObject = {
    openapi: '3.1.0',
    info: {
      title: 'Studio Gateway',
      version: '1.0.0',
      license: { name: 'MIT', identifier: 'MIT' },
      description:
        'One API for chat and for Studio work: image, video, voice, music, sound effects, transcription. ' +
        'Studio work is paid in credits that are reserved before the job starts and charged only on success.',
    },
    servers: [{ url: baseUrl }],
    security: [{ apiKey: [] }],
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key: `gk_live_…`' },
      },
    },
    paths,
    webhooks: webhookDescriptions,
  };
  const document = createDocument(described);
  return { json: JSON.stringify(document), yaml: stringify(document) };
}
