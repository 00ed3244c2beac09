/** Operator endpoints for the rows of the price book, and for the margin. */
import { z } from 'zod';
import { fixedUnits } from '../../../domain/book-price.ts';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { fieldError, GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/json.ts';
import { recordAction } from '../../../identity/operators.ts';
import { readOrganization } from '../../../identity/organizations.ts';
import type { PriceRow } from '../../../ledger/price-book.ts';
import {
  addPriceRow,
  endPriceRow,
  marginGroups,
  readPriceRow,
  type MarginGroup,
  type NewPriceRow,
} from '../../../ledger/price-rows.ts';
import { capabilities } from '../../../studio/capabilities/capability-registry.ts';
import { useOf } from '../../../studio/capabilities/capability.ts';
import type { Composition } from '../../composition.ts';
import { defineCreation } from '../creation.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import {
  dataSchema,
  exampleOperatorFields,
  idField,
  listSchema,
  operatorFields,
  pageLimit,
  pageSchema,
  parseMs,
  pathId,
  time,
  toData,
  toPage,
  zonedTime,
} from '../fields.ts';

const path = '/api/admin/v1/prices';
const credits = z.number().min(0).max(1_000_000);
const day = z.iso.date();
/** Maximum number of sums of a margin. */
const sumsMax = 10_000;

const rowFields = {
  organizationId: idField('organization').nullable().default(null).meta({
    description: 'Organization whose prices the row sets; null for all organizations.',
  }),
  what: z.string().min(1).max(128).meta({
    description:
      'Model, Studio endpoint such as `image/generate`, `chat` (chats and embeddings), or `*`.',
  }),
  markupPercent: z.number().min(-100).max(10_000).multipleOf(0.01).optional().meta({
    description:
      'Percent that are added to the catalog’s price, with at most two decimals; a discount is negative.',
  }),
  unit: z.enum(fixedUnits).optional().meta({
    description:
      'Unit of a fixed price of Studio work. `request` is a film, a recording or another result.',
  }),
  creditsPerUnit: credits.optional(),
  inputCreditsPerMillion: credits.optional().meta({
    description: 'Fixed price of a million input tokens, also of cached ones.',
  }),
  outputCreditsPerMillion: credits.optional(),
};

const rowRequest = z.strictObject({
  ...operatorFields,
  ...rowFields,
  validFrom: zonedTime.optional().meta({
    description:
      'Time from which the row is valid; by default as soon as every process knows it (`PRICE_CHANGE_DELAY_MS`).',
  }),
  validUntil: zonedTime.optional(),
});
type RowRequest = z.infer<typeof rowRequest>;

const rowSchema = z
  .object({
    id: z.string(),
    organizationId: z.string().nullable(),
    what: z.string(),
    markupPercent: z.number().nullable(),
    unit: z.enum(fixedUnits).nullable(),
    creditsPerUnit: z.number().nullable(),
    inputCreditsPerMillion: z.number().nullable(),
    outputCreditsPerMillion: z.number().nullable(),
    validFrom: time,
    validUntil: time.nullable(),
    createdAt: time,
  })
  .meta({ id: 'PriceRow', description: 'Row of the price book. It is ended, and never changed.' });

const toCredits = (micro: number | null): number | null =>
  micro === null ? null : creditsFromMicro(micro);

function formatRow(row: PriceRow): z.infer<typeof rowSchema> {
  return {
    id: row.id,
    organizationId: row.organizationId,
    what: row.what,
    markupPercent: row.markup === null ? null : row.markup / 100,
    unit: row.unit,
    creditsPerUnit: toCredits(row.unitMicro),
    inputCreditsPerMillion: toCredits(row.inputMicro),
    outputCreditsPerMillion: toCredits(row.outputMicro),
    validFrom: isoTime(row.validFromAtMs),
    validUntil: isoTime(row.validUntilAtMs),
    createdAt: isoTime(row.createdAtMs),
  };
}

/** @throws GatewayError INVALID_REQUEST if nothing has this name, or the price has another unit */
function throwIfUnknown({ what, unit, inputCreditsPerMillion }: RowRequest, services: Composition) {
  const isChat = what === 'chat' || services.chatCatalog.get(what)?.id === what;
  const isStudio = capabilities.some(
    (capability) =>
      useOf(capability) === what || capability.models?.some(({ id }) => id === what) === true,
  );
  if (what !== '*' && !isChat && !isStudio) {
    const message = `must be \`*\`, \`chat\`, a Studio endpoint such as \`image/generate\`, or the id of a model (received ${JSON.stringify(what)})`;
    throw fieldError('INVALID_REQUEST', 'what', message);
  }
  if (unit !== undefined && !isStudio)
    throw fieldError('INVALID_REQUEST', 'unit', 'requires `what` to be a Studio endpoint or model');
  if (inputCreditsPerMillion !== undefined && !isChat) {
    const message = 'requires `what` to be `chat` or a chat model';
    throw fieldError('INVALID_REQUEST', 'inputCreditsPerMillion', message);
  }
}

const toMicro = (amount: number | undefined): number | null =>
  amount === undefined ? null : microFromCredits(amount);

/** @throws GatewayError INVALID_REQUEST unless the request has exactly one price */
function toNewRow(request: RowRequest): NewPriceRow {
  const { markupPercent, unit, creditsPerUnit } = request;
  const { inputCreditsPerMillion: input, outputCreditsPerMillion: output } = request;
  const isWhole =
    (unit === undefined) === (creditsPerUnit === undefined) &&
    (input === undefined) === (output === undefined) &&
    [markupPercent, unit, input].filter((price) => price !== undefined).length === 1;
  if (!isWhole) {
    const message =
      'must be the only price: markupPercent, or unit and creditsPerUnit, or inputCreditsPerMillion and outputCreditsPerMillion';
    throw fieldError('INVALID_REQUEST', 'markupPercent', message);
  }
  return {
    organizationId: request.organizationId,
    what: request.what,
    markup: markupPercent === undefined ? null : Math.round(markupPercent * 100),
    unit: unit ?? null,
    unitMicro: toMicro(creditsPerUnit),
    inputMicro: toMicro(input),
    outputMicro: toMicro(output),
    validFromAtMs: parseMs(request.validFrom) ?? null,
    validUntilAtMs: parseMs(request.validUntil) ?? null,
  };
}

const describeEarliest = (delayMs: number): string =>
  `at least ${delayMs / 1000} seconds from now, when every process knows the change`;

const rowEndpoints = defineSection('Prices', {
  listPriceRows: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List the rows of the price book, newest first',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        what: rowFields.what.optional(),
        ended: z
          .enum(['true', 'false'])
          .default('false')
          .meta({ description: 'With `true`, also rows that have ended.' }),
        limit: pageLimit,
        cursor: idField('priceRow').optional(),
      }),
    },
    response: pageSchema(rowSchema),
    async handle({ query: { ended, cursor, limit, organizationId, what } }, { priceReads }) {
      const rows = await priceReads.list({
        organizationId,
        what,
        isCurrent: ended === 'false',
        before: cursor,
        limit: limit + 1,
      });
      return toPage(rows, { limit, cursor: 'id', show: formatRow });
    },
  }),

  addPriceRow: defineCreation({
    route: `POST ${path}`,
    summary: 'Add a row to the price book',
    description:
      'The most specific valid row sets a price: a row of the organization before one of all, then a model before its endpoint or `chat`, before `*`; of equal rows, the newest. A request is priced once: what was accepted keeps its price.',
    request: {
      body: rowRequest,
      example: { ...exampleOperatorFields, what: 'chat', markupPercent: 20 },
    },
    response: dataSchema(rowSchema),
    created: 'The row was added.',
    errors: ['NOT_FOUND'],
    async create(call, services, connection) {
      const { body } = call;
      const { config } = services;
      throwIfUnknown(body, services);
      const row = toNewRow(body);
      if (row.organizationId !== null) await readOrganization(connection, row.organizationId);
      const added = await addPriceRow(connection, row, config.PRICE_CHANGE_DELAY_MS);
      if (!added) {
        const message = `must be ${describeEarliest(config.PRICE_CHANGE_DELAY_MS)}, and earlier than validUntil`;
        throw fieldError('INVALID_REQUEST', 'validFrom', message);
      }
      await recordAction(connection, call, {
        action: 'price.added',
        ...(row.organizationId !== null && { organizationId: row.organizationId }),
        subject: added.id,
        details: { ...formatRow(added) },
      });
      return toData(formatRow(added));
    },
  }),

  endPriceRow: defineEndpoint({
    route: `POST ${path}/:priceRowId/end`,
    summary: 'End a row of the price book',
    request: {
      params: z.object({ priceRowId: pathId('priceRow') }),
      body: z.strictObject({
        ...operatorFields,
        at: zonedTime.optional().meta({
          description: 'Time of the end; by default as soon as every process knows it.',
        }),
      }),
      example: exampleOperatorFields,
    },
    response: dataSchema(rowSchema),
    errors: ['NOT_FOUND'],
    async handle({ params: { priceRowId: id }, ...call }, { pool, config }) {
      const delayMs = config.PRICE_CHANGE_DELAY_MS;
      const untilMs = parseMs(call.body.at) ?? null;
      const ended = await pool.transaction(async (connection) => {
        const row = await readPriceRow(connection, id);
        if (!row) throw new GatewayError('NOT_FOUND');
        const changed = await endPriceRow(connection, { id, untilMs }, delayMs);
        if (!changed) {
          const end = isoTime(row.validUntilAtMs);
          const message = `must be ${describeEarliest(delayMs)}${end === null ? '' : `, and earlier than the end of the row, ${end}`}`;
          throw fieldError('INVALID_REQUEST', 'at', message);
        }
        await recordAction(connection, call, {
          action: 'price.ended',
          ...(row.organizationId !== null && { organizationId: row.organizationId }),
          subject: id,
          details: { validUntil: isoTime(changed.validUntilAtMs) },
        });
        return changed;
      });
      return toData(formatRow(ended));
    },
  }),
});

const groupBy = z
  .string()
  .max(100)
  .transform((text) => text.split(',').map((name) => name.trim()))
  .refine(
    (names): names is MarginGroup[] =>
      new Set(names).size === names.length &&
      names.every((name) => marginGroups.some((group) => group === name)),
    `must be a comma-separated list of different names: ${marginGroups.join(', ')}`,
  );

const marginRow = z
  .object({
    day: day.optional(),
    organizationId: z.string().optional(),
    model: z.string().nullable().optional(),
    type: z.string().optional(),
    requests: z.int(),
    charged: z.number().meta({ description: 'Credits charged, less refunds.' }),
    cost: z.number().meta({ description: 'Price in the catalog of what was charged.' }),
    margin: z.number().meta({ description: '`charged` less `cost`.' }),
  })
  .meta({ id: 'Margin' });

const margin = defineSection('Prices', {
  getMargin: defineEndpoint({
    route: 'GET /api/admin/v1/margin',
    summary: 'Sum up the margin by day, organization, model or type',
    description:
      'Compares what was charged with its price in the catalog, by the UTC day of the charge or the refund.',
    request: {
      query: z.strictObject({
        groupBy: groupBy.prefault('day').meta({ example: 'day,organization,model' }),
        organizationId: idField('organization').optional(),
        after: day.meta({ description: 'First UTC day.', example: '2026-01-01' }),
        before: day.meta({ description: 'UTC day behind the last one.', example: '2026-02-01' }),
      }),
    },
    response: listSchema(marginRow),
    async handle({ query: { groupBy: groups, ...filter } }, { priceReads }) {
      const { organizationId, ...period } = filter;
      const limit = sumsMax + 1;
      const sums = await priceReads.margin({ organizationId, ...period, groupBy: groups, limit });
      if (sums.length > sumsMax) {
        const message = `results in more than ${sumsMax} sums: use fewer names or a shorter period`;
        throw fieldError('INVALID_REQUEST', 'groupBy', message);
      }
      return toData(
        sums.map(({ keys, requests, chargedMicro, costMicro }) => ({
          ...Object.fromEntries(
            groups.map((group, index) => [
              group === 'organization' ? 'organizationId' : group,
              keys[index] ?? null,
            ]),
          ),
          requests,
          charged: creditsFromMicro(chargedMicro),
          cost: creditsFromMicro(costMicro),
          margin: creditsFromMicro(chargedMicro - costMicro),
        })),
      );
    },
  }),
});

/** Endpoints for the price book and the margin. */
export const priceRows = [...rowEndpoints, ...margin];
