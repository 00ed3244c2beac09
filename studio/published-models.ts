/** Models as GET /studio/models tells them: the very rules that requests are checked and priced by. */
import type { AudioModel } from '../catalog/audio-models.ts';
import type { CatalogRow, ParameterRules } from '../catalog/model-parameters.ts';
import { audioPriceRules, type PriceRule } from '../catalog/price-rules.ts';

/** A model, or service, that a request may name. */
export interface PublishedModel extends Omit<CatalogRow, 'typicalSeconds'> {
  /** The fields of a request that ask for it; none where there is no other. */
  selectedBy: Readonly<Record<string, string>>;
  parameters: ParameterRules;
  /** USD; the sum of them. */
  price: readonly PriceRule[];
}

interface Publishing<Row> {
  /** The field that names a row; `model` where absent. */
  field?: string;
  parameters: (row: Row) => ParameterRules;
  price: (row: Row) => readonly PriceRule[];
}

/** The rows of a table, each with the parameters and the price of one kind of request. */
export function publishModels<Row extends Pick<PublishedModel, 'id' | 'displayName' | 'servedBy'>>(
  rows: readonly Row[],
  { field = 'model', parameters, price }: Publishing<Row>,
): PublishedModel[] {
  return rows.map((row) => ({
    id: row.id,
    displayName: row.displayName,
    servedBy: row.servedBy,
    selectedBy: { [field]: row.id },
    parameters: parameters(row),
    price: price(row),
  }));
}

/** The one model of a kind of sound; `quantity` is what of a request is counted. */
export function publishAudioModel(
  model: AudioModel,
  quantity?: PriceRule['quantity'],
): PublishedModel {
  return {
    id: model.id,
    displayName: model.displayName,
    servedBy: model.displayName,
    selectedBy: {},
    parameters: {},
    price: audioPriceRules(model, quantity),
  };
}
