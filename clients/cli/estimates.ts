/** Prints price estimates of requests. */
import { toCells, formatList, readList, objectResponse, formatTable } from './output.ts';
import type { Session } from './session.ts';

/**
 * Prints the estimated price of a request. `path` is the endpoint's path below /api/v1.
 * @throws StudioError, CliError
 */
export async function showEstimate(
  session: Session,
  path: string,
  request: { body?: object; form?: FormData },
): Promise<void> {
  const { body, raw } = await session
    .client('caller')
    .send(`/api/v1${path}/estimate`, objectResponse, request);
  session.output.show(raw, () => {
    const isPipeline = 'steps' in body.data;
    const columns = isPipeline
      ? { id: 'step', use: 'use', model: 'model', credits: 'credits', expectedCredits: 'expected' }
      : { unit: 'unit', quantity: 'quantity', credits: 'credits', note: 'note' };
    const rows = readList(body.data, isPipeline ? 'steps' : 'items');
    const items = rows.map((item) => toCells(item, columns));
    const total = toCells(body.data, { model: 'model', credits: 'credits' });
    return `${formatList(total)}\n${formatTable(items)}`;
  });
}
