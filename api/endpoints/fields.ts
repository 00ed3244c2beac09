/** Schemas and helpers for request and response fields that several endpoints share. */
import { paceWork } from '../../platform/work-turns.ts';
import { z } from 'zod';
import type { RecordFilter } from '../../platform/record-lists.ts';
import { idPattern, type IdKind } from '../../domain/ids.ts';
import { responseName, type ResponseName } from '../../domain/json.ts';
import { plainTextSchema } from '../../identity/keys.ts';
import { addEndUser, endUserSchema } from '../../domain/end-users.ts';
import { metadataFilter } from '../../domain/metadata.ts';

const kindNames: Partial<Record<IdKind, string>> = {
  bulk: 'bulk job',
  actionRun: 'bulk action',
  key: 'API key',
  webhookEndpoint: 'webhook endpoint',
  shareLink: 'share link',
};

/** Creates the schema of an id in a path. */
export const pathId = (kind: IdKind) =>
  z.string().regex(idPattern(kind), `No such ${kindNames[kind] ?? kind}.`);

/** Creates the schema of a page of a list in the format of OpenAI's API. */
export const openaiListOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  });

/** Formats a page of a list in the format of OpenAI's API. */
export const toOpenaiList = <Item extends { id: string }>(data: Item[], hasMore: boolean) => ({
  object: 'list' as const,
  data,
  first_id: data[0]?.id ?? null,
  last_id: data.at(-1)?.id ?? null,
  has_more: hasMore,
});

/** Creates the schema of an id in a query. */
export const idField = (kind: IdKind) =>
  z
    .string()
    .max(64)
    .regex(idPattern(kind), `must be a valid ${kindNames[kind] ?? kind} id`);

/** Schema of an operator's name, also used for `actor`. */
export const operatorName = plainTextSchema(100);

/**
 * Fields `actor` and `reason` of every request with which an operator changes something. The runner
 * sets `actor` if the key belongs to a named operator.
 */
export const operatorFields = {
  actor: operatorName
    .optional()
    .transform((name) => name ?? '')
    .meta({
      description:
        'Name of the person who performs the action. Required with `ADMIN_API_KEY`. With an operator’s key, the operator’s name is recorded instead.',
    }),
  reason: plainTextSchema(500),
};

const acceptsUndefined = (field: z.core.$ZodType): boolean => z.safeParse(field, undefined).success;

/** Requires that a request changes something: that it has a field which not each request has. */
export function requireChange<Schema extends z.ZodObject>(schema: Schema): Schema {
  const names = Object.keys(schema.shape).filter((name) => !(name in operatorFields));
  const required = Object.values(schema.shape).filter((field) => !acceptsUndefined(field));
  return schema
    .refine(
      (body) => names.some((name) => body[name] !== undefined),
      `must have at least one of ${names.join(', ')}`,
    )
    .meta({ minProperties: required.length + 1 });
}

/** Example of `operatorFields` for the OpenAPI documents. */
export const exampleOperatorFields = { actor: 'olga', reason: 'ticket 7' };

/** Schema of the body of an operator request that contains only the actor and the reason. */
export const operatorFieldsBody = z.strictObject(operatorFields);

/**
 * Creates the schema of a whole number from 1 to a maximum, also as the decimal digits that a form
 * contains. Other texts, booleans and lists are rejected, because such a number decides a price.
 */
export const wholeNumber = (max: number) =>
  z
    .preprocess(
      (value) => (typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value),
      z.number().int().min(1).max(max),
    )
    // The override is merged into the number's schema, so it repeats `type`: an `anyOf` would still exclude strings.
    .meta({ override: { type: ['integer', 'string'], pattern: '^\\d{1,9}$' } });

/** Schema of `limit`, the page size of the operators' lists, in items. */
export const pageLimit = z.coerce.number().int().min(1).max(200).default(50);

/** Schema of a time in a response, in ISO 8601 format. */
export const time = z.iso.datetime();

type ResponseShape<Shape> = {
  [Name in keyof Shape as ResponseName<Name>]: Name extends `${string}AtMs`
    ? Shape[Name] extends z.ZodNullable
      ? z.ZodNullable<typeof time>
      : typeof time
    : Shape[Name];
};

/**
 * Converts the schema of a database row to the schema of the response that `toResponse` returns for
 * the row.
 */
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

/** Creates the schema of a response with one item. */
export const dataSchema = <Data extends z.ZodType>(data: Data) =>
  z.object({ success: z.literal(true), data });

/** Creates the schema of a response with a list. */
export const listSchema = <Row extends z.ZodType>(row: Row) => dataSchema(z.array(row));

/** Creates the schema of a response with one page of a list and the cursor of the next page. */
export const pageSchema = <Row extends z.ZodType>(row: Row) =>
  listSchema(row).extend({ hasMore: z.boolean(), nextCursor: z.string().nullable() });

/** Wraps data in a response with the schema `dataSchema` or `listSchema`. */
export function toData<Data>(data: Data): { success: true; data: Data } {
  return { success: true, data };
}

interface Paging<Row, Shown> {
  limit: number;
  cursor: keyof Row;
  show: (row: Row) => Shown;
}

/**
 * Builds a response with the schema `pageSchema`. `rows` must contain one row more than the page
 * if there is a next page.
 */
export function toPage<Row, Shown>(
  rows: readonly Row[],
  { limit, cursor, show }: Paging<Row, Shown>,
) {
  const page = rows.slice(0, limit);
  const lastRow = page.at(-1);
  const hasMore = rows.length > limit;
  return {
    ...toData(page.map(show)),
    hasMore,
    nextCursor: hasMore && lastRow ? String(lastRow[cursor]) : null,
  };
}

/**
 * Renders rows one after the other, in turns of their organization: a page of pipelines takes many
 * milliseconds.
 */
export async function showInTurns<Row, Shown>(
  organizationId: string,
  rows: readonly Row[],
  show: (row: Row) => Promise<Shown>,
): Promise<Shown[]> {
  const pace = paceWork(organizationId);
  const shown: Shown[] = [];
  for (const row of rows) {
    await pace();
    shown.push(await show(row));
  }
  return shown;
}

/** Pattern of a date and time without a time zone. */
const zonelessTimePattern = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?$/;
/** Schema of a time in a request, with its time zone. */
export const zonedTime = z.iso
  .datetime({
    offset: true,
    error: ({ input }) =>
      typeof input === 'string' && zonelessTimePattern.test(input)
        ? 'must be a date and time with a time zone, such as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+02:00'
        : undefined,
  })
  .max(64);
const filterTime = zonedTime.optional();

/** Query parameters that filter lists of jobs and of usage. */
export const recordFilter = {
  model: plainTextSchema(256).optional().meta({ description: 'Return only items of this model.' }),
  keyId: idField('key')
    .optional()
    .meta({ description: 'Return only items whose request was sent with this API key.' }),
  after: filterTime.meta({ description: 'Return only items created strictly after this time.' }),
  before: filterTime.meta({ description: 'Return only items created before this time.' }),
  metadata: metadataFilter,
  endUser: endUserSchema.optional().meta({ description: 'Return only items of this end user.' }),
};

/** Schema of a job type in a query. */
export const jobType = z
  .string()
  .max(64)
  .regex(/^[A-Za-z]{1,64}$/, 'must be a job type, such as imageGenerate');

const filter = z.object(recordFilter);

/**
 * Converts parsed `recordFilter` parameters to the filter of a database query. Times are in Unix
 * milliseconds. A list begins strictly after `after` (spec §4.4), so a client that passes the time of its
 * newest record, which responses round down to a millisecond, does not receive this record again.
 */
export function toRecordFilter({
  model,
  keyId,
  after,
  before,
  metadata,
  endUser,
}: z.infer<typeof filter>): RecordFilter {
  const afterMs = parseMs(after);
  return {
    model,
    keyId,
    metadata: addEndUser(metadata ?? null, endUser ?? null) ?? undefined,
    afterMs: afterMs === undefined ? undefined : afterMs + 1,
    beforeMs: parseMs(before),
  };
}

/** Parses a time of a query, in Unix milliseconds. */
export function parseMs(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
