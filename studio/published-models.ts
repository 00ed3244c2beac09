/** Models as GET /studio/models tells them: the very rules that requests are checked by. */
import type { CatalogRow, ParameterRules } from '../catalog/model-parameters.ts';

/** A model, or service, that a request may name. */
export interface PublishedModel extends Omit<CatalogRow, 'typicalSeconds'> {
  parameters: ParameterRules;
}

/** The rows of a table, each with the parameters of one kind of request. */
export function publishModels<Row extends Omit<PublishedModel, 'parameters'>>(
  rows: readonly Row[],
  parametersOf: (row: Row) => ParameterRules,
): PublishedModel[] {
  return rows.map((row) => {
    const { id, displayName, servedBy } = row;
    return { id, displayName, servedBy, parameters: parametersOf(row) };
  });
}
