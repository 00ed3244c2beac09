/** Lists of the organization's jobs, usage and files, page by page. */
import type { Client } from 'openapi-fetch';
import type { Job, SignalOption } from './capabilities.ts';
import type { components, paths } from './schema.ts';

type Query<Path extends keyof paths> = paths[Path] extends {
  get: { parameters: { query?: infer Parameters } };
}
  ? Omit<NonNullable<Parameters>, 'cursor' | 'limit'>
  : never;

interface Page<Item> {
  items: readonly Item[] | undefined;
  cursor: string | null | undefined;
}

/** Which jobs to list. */
export type JobFilter = Query<'/api/v1/studio/jobs'>;
/** Which usage records to list. */
export type UsageFilter = Query<'/api/v1/usage'>;
/** Which files to list. */
export type FileFilter = Query<'/api/v1/storage/files'>;

/** Usage record of a chat or a job. */
export type UsageRecord = components['schemas']['UsageRecord'];
/** Stored file. */
export type StoredFile = components['schemas']['File'];

type Items<Item> = AsyncGenerator<Item, void, undefined>;

const limit = 100;

async function* itemsOf<Item>(read: (cursor?: string) => Promise<Page<Item>>): Items<Item> {
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    yield* page.items ?? [];
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
}

const at = (cursor: string | undefined) => (cursor === undefined ? { limit } : { limit, cursor });

/** Lists jobs, newest first. */
export function listJobs(
  api: Client<paths>,
  filter: JobFilter,
  { signal }: SignalOption,
): Items<Job> {
  return itemsOf(async (cursor) => {
    const query = { ...filter, ...at(cursor) };
    const { data } = await api.GET('/api/v1/studio/jobs', {
      params: { query },
      signal: signal ?? null,
    });
    // oxlint-disable-next-line no-unsafe-type-assertion -- the description does not say which type has which result
    return { items: data?.data as Job[] | undefined, cursor: data?.nextCursor };
  });
}

/** Lists usage records, newest first. */
export function listUsage(
  api: Client<paths>,
  filter: UsageFilter,
  { signal }: SignalOption,
): Items<UsageRecord> {
  return itemsOf(async (cursor) => {
    const query = { ...filter, ...at(cursor) };
    const { data } = await api.GET('/api/v1/usage', { params: { query }, signal: signal ?? null });
    return { items: data?.usage, cursor: data?.nextCursor };
  });
}

/** Lists files, newest first. */
export function listFiles(
  api: Client<paths>,
  filter: FileFilter,
  { signal }: SignalOption,
): Items<StoredFile> {
  return itemsOf(async (cursor) => {
    const query = { ...filter, ...at(cursor) };
    const params = { query };
    const { data } = await api.GET('/api/v1/storage/files', { params, signal: signal ?? null });
    return { items: data?.data, cursor: data?.nextCursor };
  });
}
