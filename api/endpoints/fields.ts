/** Parts of requests and responses that several endpoints share. */
import { z } from 'zod';
import type { RecordFilter } from '../../platform/record-lists.ts';
import { idPattern, type IdKind } from '../../domain/ids.ts';
import { responseName, type ResponseName } from '../../domain/json.ts';
import { plainText } from '../identity/key-fields.ts';
import { metadataFilter } from '../http/metadata.ts';

const nouns: Partial<Record<IdKind, string>> = { key: 'API key', member: 'user' };

/** Makes the schema of an id in a path. */
export const pathId = (kind: IdKind) =>
  z.string().regex(idPattern(kind), `No such ${nouns[kind] ?? kind}.`);

/** Makes the schema of an id in a query. */
export const idField = (kind: IdKind) =>
  z.string().regex(idPattern(kind), `must be the id of a ${kind}`);

/** Name of a person: the name of an operator, and `actor`. */
export const operatorName = plainText(100);

/** Fields of every write of an operator; the runner sets `actor` by the operator's key. */
export const authority = {
  actor: operatorName
    .optional()
    .transform((name) => name ?? '')
    .meta({
      description:
        'Name of the person who acts. Required with `ADMIN_API_KEY`; with the key of an operator, the name of the operator is recorded instead.',
    }),
  reason: plainText(500),
};

/** Example of `authority`. */
export const exampleAuthority = { actor: 'olga', reason: 'ticket 7' };

/** Body of a write without fields of its own. */
export const bareWrite = z.strictObject(authority);

/** Page size of the operators' lists, in items. */
export const pageLimit = z.coerce.number().int().min(1).max(200).default(50);

/** Time in a response, ISO 8601. */
export const time = z.iso.datetime();

type ResponseShape<Shape> = {
  [Name in keyof Shape as ResponseName<Name>]: Name extends `${string}AtMs`
    ? Shape[Name] extends z.ZodNullable
      ? z.ZodNullable<typeof time>
      : typeof time
    : Shape[Name];
};

/** Makes the schema of a response from the schema of a row that `toResponse` converts. */
export function responseSchema<Shape extends Record<string, z.ZodType>>(
  row: z.ZodObject<Shape>,
): z.ZodObject<ResponseShape<Shape>> {
  const fields = Object.entries(row.shape).map(([name, field]) => {
    const isoField = field instanceof z.ZodNullable ? time.nullable() : time;
    return [responseName(name), name.endsWith('AtMs') ? isoField : field];
  });
  // oxlint-disable-next-line no-unsafe-type-assertion -- the type of `fromEntries` does not contain the names
  return z.object(Object.fromEntries(fields)) as z.ZodObject<ResponseShape<Shape>>;
}

/** Makes the schema of a response with one item. */
export const dataSchema = <Data extends z.ZodType>(data: Data) =>
  z.object({ success: z.literal(true), data });

/** Makes the schema of a response with a list. */
export const listSchema = <Row extends z.ZodType>(row: Row) => dataSchema(z.array(row));

/** Makes the schema of a response with a page of a list, and the `cursor` of the next page. */
export const pageSchema = <Row extends z.ZodType>(row: Row) =>
  listSchema(row).extend({ hasMore: z.boolean(), nextCursor: z.string().nullable() });

/** Makes a response of the schemas `dataSchema` and `listSchema`. */
export function toData<Data>(data: Data): { success: true; data: Data } {
  return { success: true, data };
}

interface Paging<Row, Shown> {
  limit: number;
  cursor: keyof Row;
  show: (row: Row) => Shown;
}

/** Makes a response of the schema `pageSchema` from one row more than the page has. */
export function toPage<Row, Shown>(
  rows: readonly Row[],
  { limit, cursor, show }: Paging<Row, Shown>,
) {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasMore = rows.length > limit;
  return {
    ...toData(page.map(show)),
    hasMore,
    nextCursor: hasMore && last ? String(last[cursor]) : null,
  };
}

/** Time without its zone. */
const zoneless = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?$/;
const filterTime = z.iso
  .datetime({
    offset: true,
    error: ({ input }) =>
      typeof input === 'string' && zoneless.test(input)
        ? 'must be a date and time with its time zone, such as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+02:00'
        : undefined,
  })
  .optional();

/** Query parameters that filter lists of jobs and of usage. */
export const recordFilter = {
  model: z.string().min(1).max(256).optional().meta({ description: 'Only this model.' }),
  keyId: idField('key').optional().meta({ description: 'Only requests of this key.' }),
  after: filterTime.meta({ description: 'Only items created strictly after this time.' }),
  before: filterTime.meta({ description: 'Only items created strictly before this time.' }),
  metadata: metadataFilter,
};

/** Schema of a job type in a query. */
export const jobType = z.string().regex(/^[A-Za-z]{1,64}$/, 'must be a type of job');

const filter = z.object(recordFilter);

/** Converts parsed `recordFilter` parameters to the filter of a query; times in Unix ms. */
export function toRecordFilter({
  model,
  keyId,
  after,
  before,
  metadata,
}: z.infer<typeof filter>): RecordFilter {
  return { model, keyId, metadata, afterMs: parseMs(after), beforeMs: parseMs(before) };
}

function parseMs(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
