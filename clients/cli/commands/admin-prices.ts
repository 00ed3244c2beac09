/** `studio admin prices`, `studio admin margin`: the price book, and the margin that results. */
import type { Command } from 'commander';
import { parseNumber } from '../fields.ts';
import { addListing } from '../listings.ts';
import { formatList, toCell, toCells, type Columns, type Fields } from '../output.ts';
import { addOperatorAction } from './operator-action.ts';

/** Returns the price of a row in words. */
function describePrice(row: Fields): string {
  const markup = toCell(row, 'markupPercent');
  if (typeof markup === 'number') return `${markup < 0 ? '' : '+'}${markup} %`;
  const unit = toCell(row, 'unit');
  if (unit !== null) return `${toCell(row, 'creditsPerUnit')} per ${unit}`;
  return `${toCell(row, 'inputCreditsPerMillion')} in, ${toCell(row, 'outputCreditsPerMillion')} out per million tokens`;
}

const rowColumns: Columns = {
  row: 'id',
  organization: (row) => toCell(row, 'organizationId') ?? 'all',
  what: 'what',
  price: describePrice,
  from: 'validFrom',
  until: 'validUntil',
};

interface AddOptions {
  org?: string;
  markup?: number;
  unit?: string;
  credits?: number;
  input?: number;
  output?: number;
  from?: string;
  until?: string;
}

/** Adds the commands of `studio admin prices`. */
export function addPriceCommands(prices: Command): void {
  addListing({
    as: 'operator',
    command: prices
      .command('list')
      .description('list the rows of the price book, newest first')
      .option('--org <organizationId>', 'only rows of this organization')
      .option('--what <what>', 'only rows of this model or endpoint')
      .option('--ended <true|false>', 'also rows that have ended'),
    path: () => '/prices',
    columns: rowColumns,
  });
  addOperatorAction<AddOptions>({
    command: prices
      .command('add <what>')
      .description(
        'add a row for a model, a Studio endpoint such as image/generate, chat, or everything: *',
      )
      .option('--org <organizationId>', 'only for this organization (default: all)')
      .option('--markup <percent>', 'add to the catalog’s price; negative: a discount', parseNumber)
      .option('--unit <unit>', 'fixed price of an image, second, character or request')
      .option('--credits <credits>', 'credits per unit', parseNumber)
      .option('--input <credits>', 'fixed price of a million input tokens', parseNumber)
      .option('--output <credits>', 'fixed price of a million output tokens', parseNumber)
      .option('--from <time>', 'valid from this ISO 8601 time (default: now)')
      .option('--until <time>', 'valid until this time'),
    path: () => '/prices',
    body: ({ org, markup, unit, credits, input, output, from, until }, [what]) => ({
      what,
      organizationId: org ?? null,
      markupPercent: markup,
      unit,
      creditsPerUnit: credits,
      inputCreditsPerMillion: input,
      outputCreditsPerMillion: output,
      validFrom: from,
      validUntil: until,
    }),
    canRetry: true,
    text: (row) => formatList(toCells(row, rowColumns)),
  });
  addOperatorAction<{ at?: string }>({
    command: prices
      .command('end <rowId>')
      .description('end a row; what was accepted keeps its price')
      .option('--at <time>', 'end at this ISO 8601 time (default: now)'),
    path: (id) => `/prices/${id}/end`,
    body: ({ at }) => ({ at }),
    text: (row) => formatList(toCells(row, rowColumns)),
  });
}

/** Adds `studio admin margin`. */
export function addMarginCommand(admin: Command): void {
  addListing({
    as: 'operator',
    isUnpaged: true,
    command: admin
      .command('margin')
      .description('sum up charges, less what they cost in the catalog')
      .requiredOption('--after <day>', 'first UTC day, such as 2026-01-01')
      .requiredOption('--before <day>', 'UTC day behind the last one')
      .option('--group-by <names>', 'day, organization, model or type (comma-separated)', 'day')
      .option('--org <organizationId>', 'only this organization'),
    path: () => '/margin',
    columns: {
      day: 'day',
      organization: 'organizationId',
      model: 'model',
      type: 'type',
      requests: 'requests',
      charged: 'charged',
      cost: 'cost',
      margin: 'margin',
    },
  });
}
