/** The OpenAPI 3.1 documents, made from the operations and the schemas that validate (spec §9). */
import { stringify } from 'yaml';
import { createDocument } from 'zod-openapi';
import type { Operation } from '../operations/operation.ts';
import { describeOperation } from './description.ts';
import { webhookDescriptions } from './webhooks.ts';

/** A document in both spellings; it never changes while a process runs. */
interface OpenApiDocument {
  document: { openapi: '3.1.0' };
  json: string;
  yaml: string;
}

/** What describes the API; each is made when it is first asked for. */
export interface Documents {
  /** The API of callers, behind their keys. */
  callers: () => OpenApiDocument;
  /** What operators do, behind the admin key. */
  operators: () => OpenApiDocument;
  /** llms.txt: what a language model needs to call the API (llmstxt.org); `prices` are lines of a list. */
  summary: (prices: readonly string[]) => string;
}

/** Documents of these operations, for an API that is reached at `baseUrl`. */
export function createDocuments(baseUrl: string, operations: readonly Operation[]): Documents {
  const ofOperators = operations.filter(({ scope }) => scope === 'admin');
  const ofCallers = operations.filter(({ scope, id }) => scope !== 'admin' && id !== undefined);
  return {
    callers: once(() =>
      buildDocument(ofCallers, {
        baseUrl,
        title: 'Studio Gateway',
        description:
          'One API for chat and for Studio work: image, video, voice, music, sound effects, transcription. ' +
          'Studio work is paid in credits that are reserved before the job starts and charged only on success.',
        key: 'An API key: `gk_live_…`',
        webhooks: webhookDescriptions,
      }),
    ),
    operators: once(() =>
      buildDocument(ofOperators, {
        baseUrl,
        title: 'Studio Gateway: operators',
        description: 'What operators see and do. Every write says who and why, and is recorded.',
        key: 'The key of an operator, `gk_oper_…`, or the `ADMIN_API_KEY` of the deployment.',
        webhooks: {},
      }),
    ),
    summary: (prices) => summaryOf(baseUrl, ofCallers, prices),
  };
}

interface Frame {
  baseUrl: string;
  title: string;
  description: string;
  /** What the bearer key is. */
  key: string;
  webhooks: Record<string, Record<string, unknown>>;
}

function buildDocument(operations: readonly Operation[], frame: Frame): OpenApiDocument {
  const { baseUrl, title, description, key, webhooks } = frame;
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    const path = describedPath(operation);
    paths[path] = {
      ...paths[path],
      [operation.method.toLowerCase()]: describeOperation(operation),
    };
  }
  const document = createDocument({
    openapi: '3.1.0',
    info: { title, version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' }, description },
    servers: [{ url: baseUrl }],
    security: [{ apiKey: [] }],
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: key } },
    },
    paths,
    webhooks,
  });
  return {
    document: { ...document, openapi: '3.1.0' },
    json: JSON.stringify(document),
    yaml: stringify(document),
  };
}

/** The path as OpenAPI writes it: `/api/v1/studio/jobs/{jobId}`. */
export function describedPath({ path }: Pick<Operation, 'path'>): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}

function once<Value>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => (made ??= make());
}

function summaryOf(
  baseUrl: string,
  operations: readonly Operation[],
  prices: readonly string[],
): string {
  const lines = operations.map(
    (operation) => `- ${operation.method} ${describedPath(operation)}: ${operation.summary}`,
  );
  return [
    '# Studio Gateway',
    '',
    '> One API for chat and Studio work (image, video, voice, music, sound effects, transcription).',
    '',
    `Base URL ${baseUrl}. Send \`Authorization: Bearer <API key>\`. Bodies are JSON. Studio answers are`,
    '`{success, data, credits}`, or 202 with `data.statusUrl` to poll until `data.done` is true.',
    `Full description: ${baseUrl}/api/v1/openapi.json`,
    '',
    '## Operations',
    '',
    ...lines,
    '',
    '## Prices of the Studio models, in credits',
    '',
    'A path plus `/estimate` takes the same body and returns what it would cost, without starting or charging anything.',
    `Everything, and how to count it: ${baseUrl}/api/v1/pricing`,
    '',
    ...prices,
    '',
  ].join('\n');
}
