/**
 * Models and services in the response of GET /studio/models, built from the rows of the catalog.
 */
import type { AudioModel } from './audio-models.ts';
import type { CatalogRow, ParameterRules } from './model-parameters.ts';
import { type PriceRule, audioPriceRules } from './price-rules.ts';

/**
 * Model or service in the response of GET /studio/models, with the rules that validate and price
 * requests.
 */
export interface PublishedModel extends Omit<CatalogRow, 'typicalSeconds'> {
  /** Typical duration of a call in seconds; null if unknown. */
  typicalSeconds: number | null;
  /** Request fields that select the model, with values; empty if it is the only one. */
  selectedBy: Readonly<Record<string, string>>;
  parameters: ParameterRules;
  /** Price rules in USD; the price is their sum. */
  price: readonly PriceRule[];
}

interface PublishOptions<Row> {
  /** Returns the request fields that select a row, with values; by default `model`. */
  selectedBy?: (row: Row) => PublishedModel['selectedBy'];
  /** Returns the parameter rules of a row. By default, a row has none. */
  parameters?: (row: Row) => ParameterRules;
  /** Returns the price rules of a row. */
  price: (row: Row) => readonly PriceRule[];
}

/**
 * Builds the published models from the rows of a model table, with the parameters and prices of one
 * capability.
 */
export function publishModels<
  Row extends Omit<CatalogRow, 'typicalSeconds'> & { typicalSeconds?: number },
>(
  rows: readonly Row[],
  { selectedBy = ({ id }) => ({ model: id }), parameters = () => ({}), price }: PublishOptions<Row>,
): PublishedModel[] {
  return rows.map((row) => ({
    id: row.id,
    displayName: row.displayName,
    servedBy: row.servedBy,
    typicalSeconds: row.typicalSeconds ?? null,
    selectedBy: selectedBy(row),
    parameters: parameters(row),
    price: price(row),
  }));
}

/**
 * Builds the published model of an audio capability, which has only one model. `quantity`
 * determines the number of priced units of a request.
 */
export function publishAudioModel(
  model: AudioModel,
  quantity?: PriceRule['quantity'],
): PublishedModel {
  return {
    id: model.id,
    displayName: model.displayName,
    servedBy: model.displayName,
    typicalSeconds: null,
    selectedBy: {},
    parameters: {},
    price: audioPriceRules(model, quantity),
  };
}
