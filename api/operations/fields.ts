/** Parts of requests and answers that several operations share. */
import { z } from 'zod';
import type { RecordFilter } from '../../platform/record-lists.ts';
import { idForm, type IdKind } from '../../domain/ids.ts';
import { plainText } from '../identity/key-fields.ts';
import { metadataFilter } from '../http/metadata.ts';

const nouns: Partial<Record<IdKind, string>> = { key: 'API key', member: 'user' };

/** An id in a path. */
export const pathId = (kind: IdKind) =>
  z.string().regex(idForm(kind), `No such ${nouns[kind] ?? kind}.`);

/** An id of this kind in a query. */
export const idField = (kind: IdKind) =>
  z.string().regex(idForm(kind), `must be the id of a ${kind}`);

/** Names are people's: the name of an operator, and `actor`. */
export const operatorName = plainText(100);

/** Who writes and why: part of every write of an operator. The runner puts the operator's name in. */
export const authority = {
  actor: operatorName
    .optional()
    .transform((name) => name ?? '')
    .meta({
      description:
        'Who does this. Required with `ADMIN_API_KEY`; of an operator’s own key, its name counts.',
    }),
  reason: plainText(500),
};

/** `authority` as it may be said. */
export const exampleAuthority = { actor: 'olga', reason: 'ticket 7' };

/** A write that says nothing else. */
export const bareWrite = z.strictObject(authority);

/** Page size of the operators' lists. */
export const pageLimit = z.coerce.number().int().min(1).max(200).default(50);

/** A time in an answer, ISO 8601. */
export const time = z.iso.datetime();

type AnswerShape<Shape> = {
  [
    Name in keyof Shape as Name extends `${infer Noun}AtMs` ? `${Noun}At` : Name
  ]: Name extends `${string}AtMs`
    ? Shape[Name] extends z.ZodNullable
      ? z.ZodNullable<typeof time>
      : typeof time
    : Shape[Name];
};

/** Makes the schema of an answer from that of a row: each `…AtMs` becomes a `…At`, as `isoTimes` shows it. */
export function answerOf<Shape extends Record<string, z.ZodType>>(
  row: z.ZodObject<Shape>,
): z.ZodObject<AnswerShape<Shape>> {
  const fields = Object.entries(row.shape).map(([name, field]) =>
    name.endsWith('AtMs')
      ? [name.slice(0, -'Ms'.length), field instanceof z.ZodNullable ? time.nullable() : time]
      : [name, field],
  );
  // oxlint-disable-next-line no-unsafe-type-assertion -- `fromEntries` forgets which names it was given
  return z.object(Object.fromEntries(fields)) as z.ZodObject<AnswerShape<Shape>>;
}

/** An answer around one thing. */
export const oneOf = <Data extends z.ZodType>(data: Data) =>
  z.object({ success: z.literal(true), data });

/** An answer around a list. */
export const listOf = <Row extends z.ZodType>(row: Row) => oneOf(z.array(row));

/** A page of a list, and the `cursor` of the next. */
export const pageOf = <Row extends z.ZodType>(row: Row) =>
  listOf(row).extend({ hasMore: z.boolean(), nextCursor: z.string().nullable() });

/** The answer of `oneOf` and `listOf`. */
export function found<Data>(data: Data): { success: true; data: Data } {
  return { success: true, data };
}

interface Paging<Row, Shown> {
  limit: number;
  /** The field by which the next page is found. */
  cursor: keyof Row;
  show: (row: Row) => Shown;
}

/** The answer of `pageOf`: at most `limit` of the rows read, and where the next page goes on. */
export function foundPage<Row, Shown>(
  rows: readonly Row[],
  { limit, cursor, show }: Paging<Row, Shown>,
) {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasMore = rows.length > limit;
  return {
    ...found(page.map(show)),
    hasMore,
    nextCursor: hasMore && last ? String(last[cursor]) : null,
  };
}

const filterTime = z.iso.datetime({ offset: true }).optional();

/** What lists of jobs and of usage can be narrowed by. */
export const recordFilter = {
  model: z.string().min(1).max(256).optional().meta({ description: 'Only this model.' }),
  keyId: idField('key').optional().meta({ description: 'Only requests of this key.' }),
  after: filterTime.meta({ description: 'Only items created strictly after this time.' }),
  before: filterTime.meta({ description: 'Only items created strictly before this time.' }),
  metadata: metadataFilter,
};

/** A type of job in a query. */
export const jobType = z.string().regex(/^[A-Za-z]{1,64}$/, 'must be a type of job');

const filter = z.object(recordFilter);

/** `recordFilter` as it is searched by. */
export function recordFilterOf({
  model,
  keyId,
  after,
  before,
  metadata,
}: z.infer<typeof filter>): RecordFilter {
  return { model, keyId, metadata, afterMs: msOf(after), beforeMs: msOf(before) };
}

function msOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
