/** What a request would reserve, asked before it is made. */
import { cellsOf, listIn, oneAnswer } from './columns.ts';
import { list, table } from './output.ts';
import type { Session } from './session.ts';

/** Shows the price of a request to this path below /api/v1. @throws ApiError, CliError */
export async function showEstimate(
  session: Session,
  path: string,
  request: { body?: object; form?: FormData },
): Promise<void> {
  const { body, raw } = await session.api().send(`/api/v1${path}/estimate`, oneAnswer, request);
  session.output.show(raw, () => {
    const items = listIn(body.data, 'items').map((item) =>
      cellsOf(item, { unit: 'unit', quantity: 'quantity', credits: 'credits', note: 'note' }),
    );
    const total = cellsOf(body.data, { model: 'model', credits: 'credits' });
    return `${list(total)}\n${table(items)}`;
  });
}
