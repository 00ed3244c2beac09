/** Lists the jobs, requests, usage records and files of the organization, page by page. */
import type { SignalOption } from './capabilities.ts';
import { parseBody, type Connection } from './connection.ts';
import type { components, paths } from './schema.ts';

type Query<Path extends keyof paths> = paths[Path] extends {
  get: { parameters: { query?: infer Parameters } };
}
  ? Omit<NonNullable<Parameters>, 'cursor' | 'limit'>
  : never;

/** Filters of `jobs`. */
export type JobFilter = Query<'/api/v1/studio/jobs'>;
/** Filters of `requests`. */
export type RequestFilter = Query<'/api/v1/requests'>;
/** Filters of `usage`. */
export type UsageFilter = Query<'/api/v1/usage'>;
/** Filters of `files`. */
export type FileFilter = Query<'/api/v1/storage/files'>;

/** Credits and tokens that a chat or a job used. */
export type UsageRecord = components['schemas']['UsageRecord'];
/** Chat, request for embeddings, or rejected request. */
export type RequestRecord = components['schemas']['RequestRecord'];
/** File that the gateway stores for the organization. */
export type StoredFile = components['schemas']['File'];

/** Iterator over the items of all pages. */
export type Items<Item> = AsyncGenerator<Item, void, undefined>;

type Page<Item> = Record<'data' | 'usage', Item[] | undefined> & { nextCursor: string | null };

const pageSize = 100;

/** Yields the items of a list, newest first; fetches each page when it is needed. */
export async function* listItems<Item>(
  connection: Connection,
  path: string,
  { filter, signal }: SignalOption & { filter: object },
): Items<Item> {
  const query = new URLSearchParams({ limit: String(pageSize) });
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue;
    if (typeof value !== 'object') query.set(name, String(value));
    else
      for (const [key, entry] of Object.entries(value)) query.set(`${name}[${key}]`, String(entry));
  }
  for (;;) {
    const response = await connection.get(`${path}?${query.toString()}`, { signal });
    const { data, usage, nextCursor } = await parseBody<Page<Item>>(response);
    yield* data ?? usage ?? [];
    if (nextCursor === null) return;
    query.set('cursor', nextCursor);
  }
}
