/** Describes the prices and limits of a Studio model. */
import type { Schemas } from '../../gateway/client.ts';
import { formatExact } from '../../parts/amounts.tsx';
import { toTitle, type Capability, type FieldSchema } from '../playground/capability.ts';

type Model = Capability['models'][number];

/** Returns the price of a unit if all options have their default values. */
export function findDefaultPrice(
  { price, parameters }: Model,
  { request }: Capability,
): { credits: number; unit: string } | null {
  const { properties = {} }: FieldSchema = request;
  const [rule] = price;
  const isDefault = ([name, value]: [string, unknown]): boolean =>
    value === (parameters[name]?.default ?? properties[name]?.default);
  const row = rule?.rows.find(({ when }) => Object.entries(when).every(isDefault)) ?? rule?.rows[0];
  return rule && row ? { credits: row.credits, unit: rule.unit } : null;
}

/**
 * Describes a price in credits: `3.9 per image`,
 * `15 (resolution 1K or 2K), 30 (resolution 4K) per image`.
 */
export function formatPrice(price: readonly Schemas['PriceRule'][]): string {
  return price.map(formatPriceRule).join(', plus ');
}

function formatPriceRule({ unit, pixels, rows }: Schemas['PriceRule']): string {
  const choices = [...Map.groupBy(rows, ({ credits }) => credits)].map(([credits, same]) => {
    const conditions = same.map(formatCondition).filter(Boolean);
    const amount = formatExact(credits);
    return conditions.length === 0 ? amount : `${amount} (${conditions.join(' or ')})`;
  });
  const size = pixels?.each ? ` and ${formatMegapixels(pixels.each)}` : '';
  return `${choices.join(', ')} per ${unit}${size}`;
}

/** Lists the price of each choice of options, e.g. `resolution 4K` at 30 credits per image. */
export const listOptions = (price: readonly Schemas['PriceRule'][]) =>
  price.flatMap(({ unit, rows }, index) =>
    rows.map((row) => ({
      option: `${index > 0 ? 'plus ' : ''}${formatCondition(row) || `each ${unit}`}`,
      unit,
      credits: row.credits,
    })),
  );

/** Returns the descriptions of the request fields that change the price of a model. */
export function describeOptions({ price }: Model, { request }: Capability): string[] {
  const { properties = {} }: FieldSchema = request;
  const names = price.flatMap(({ rows }) => rows.flatMap(({ when }) => Object.keys(when)));
  return [...new Set(names)].flatMap((name) => properties[name]?.description ?? []);
}

function formatCondition({ when, pixelsMax }: Schemas['PriceRule']['rows'][number]): string {
  const fields = Object.entries(when).map(([field, value]) => {
    const text = value === true ? 'on' : value === false ? 'off' : value;
    return `${toTitle(field).toLowerCase()} ${text}`;
  });
  return [
    ...fields,
    ...(pixelsMax === undefined ? [] : [`up to ${formatMegapixels(pixelsMax)}`]),
  ].join(', ');
}

const formatMegapixels = (pixels: number): string =>
  `${formatExact(Number((pixels / 1_000_000).toFixed(2)))} megapixels`;

/** Describes the values that a rule allows for a field. Returns null if the rule allows all. */
export function formatRule(rule: Schemas['ParameterRule']): string | null {
  const { oneOf, min, max, itemsMax, charactersMax, size, default: defaultValue } = rule;
  const parts = [
    oneOf?.map((value) => (value === true ? 'yes' : value === false ? 'no' : value)).join(', '),
    min !== undefined && max !== undefined ? `${min} to ${max}` : undefined,
    itemsMax === undefined ? undefined : `up to ${itemsMax}`,
    charactersMax === undefined ? undefined : `up to ${charactersMax} characters`,
    size && `width and height up to ${size.edgeMax}, in multiples of ${size.multipleOf}`,
    defaultValue === undefined ? undefined : `(default ${String(defaultValue)})`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? null : parts.join(' ');
}
