/** Page of the price book and of the margin of the last 30 days. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import type { FieldReader } from '../../parts/dialog.tsx';
import { SelectField, TextField, toOptions } from '../../parts/fields.tsx';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { OrganizationLink } from './links.tsx';
import { OperatorAction } from './operator-action.tsx';

type PriceRow = OperatorSchemas['PriceRow'];
type Margin = OperatorSchemas['Margin'];

/** Returns the price of a row in words. */
function describePrice(row: PriceRow): string {
  const { markupPercent, unit, creditsPerUnit } = row;
  if (markupPercent !== null) return `${markupPercent < 0 ? '' : '+'}${markupPercent} %`;
  if (unit !== null) return `${creditsPerUnit} credits per ${unit}`;
  return `${row.inputCreditsPerMillion} / ${row.outputCreditsPerMillion} credits per million input / output tokens`;
}

const rowColumns: Column<PriceRow>[] = [
  {
    title: 'Organization',
    cell: ({ organizationId }) =>
      organizationId === null ? 'All' : <OrganizationLink id={organizationId} />,
  },
  { title: 'For', cell: ({ what }) => <code>{what}</code> },
  { title: 'Price', cell: describePrice },
  { title: 'From', cell: ({ validFrom }) => <RelativeTime time={validFrom} /> },
  {
    title: 'Until',
    cell: ({ validUntil }) => (validUntil === null ? '–' : <RelativeTime time={validUntil} />),
  },
  { title: 'Actions', cell: (row) => row.validUntil === null && <EndRow {...row} /> },
];

const marginColumns: Column<Margin>[] = [
  {
    title: 'Organization',
    cell: ({ organizationId = '' }) => <OrganizationLink id={organizationId} />,
  },
  { title: 'Model', cell: ({ model }) => model ?? '–' },
  { title: 'Requests', isNumber: true, cell: ({ requests }) => requests },
  ...(['charged', 'cost', 'margin'] as const).map((name) => ({
    title: name.charAt(0).toUpperCase() + name.slice(1),
    isNumber: true,
    cell: (sum: Margin) => sum[name].toFixed(2),
    sortValue: (sum: Margin) => sum[name],
  })),
];

const formatDay = (offset: number): string =>
  new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);

/** Shows the page of prices. */
export function Prices() {
  const rows = useQuery({
    queryKey: ['operator', 'prices'],
    queryFn: () =>
      unwrap(operatorApi.GET('/api/admin/v1/prices', { params: { query: { limit: 200 } } })),
  });
  const period = { after: formatDay(-30), before: formatDay(1) };
  const margin = useQuery({
    queryKey: ['operator', 'margin', period],
    queryFn: () =>
      unwrap(
        operatorApi.GET('/api/admin/v1/margin', {
          params: { query: { groupBy: 'organization,model', ...period } },
        }),
      ),
  });
  return (
    <>
      <Panel
        title="Price book"
        columns={rowColumns}
        items={rows.data?.data}
        rowId={({ id }) => id}
        error={rows.error}
        empty="No prices of your own"
        emptyHint="The catalog’s prices apply. Add a row to set what an organization, or all, pay."
      >
        <OperatorAction
          verb="Add"
          title="New price"
          path="/prices"
          body={(read) => ({
            organizationId: read('organizationId') || null,
            what: read('what'),
            ...readPrice(read),
          })}
        >
          <TextField label="Organization" hint="empty: all" name="organizationId" maxLength={64} />
          <TextField
            label="For"
            hint="a model, an endpoint such as image/generate, chat, or *"
            name="what"
            required
            maxLength={128}
          />
          <PriceFields />
        </OperatorAction>
      </Panel>
      <Panel
        title="Margin of the last 30 days"
        columns={marginColumns}
        items={margin.data?.data}
        rowId={({ organizationId, model }) => `${organizationId} ${model}`}
        error={margin.error}
        empty="Nothing was charged"
      />
    </>
  );
}

const priceKinds = [
  ['markup', 'a markup on the catalog'],
  ['unit', 'a fixed price for Studio work'],
  ['tokens', 'a fixed price for tokens'],
] as const;

const units = ['image', 'second', 'character', 'request'] as const satisfies readonly NonNullable<
  PriceRow['unit']
>[];

/** Returns the price of the form. Only the fields of the chosen kind are shown. */
function readPrice(read: FieldReader): object {
  const readNumber = (name: string): number => Number(read(name));
  if (read('kind') === 'unit')
    return { unit: read('unit'), creditsPerUnit: readNumber('creditsPerUnit') };
  if (read('kind') === 'markup') return { markupPercent: readNumber('markupPercent') };
  return {
    inputCreditsPerMillion: readNumber('inputCreditsPerMillion'),
    outputCreditsPerMillion: readNumber('outputCreditsPerMillion'),
  };
}

/** Shows the choice of the kind of price, and the fields of the chosen kind. */
function PriceFields() {
  const [kind, setKind] = useState<(typeof priceKinds)[number][0]>('markup');
  return (
    <>
      <SelectField label="Price" name="kind" options={priceKinds} value={kind} change={setKind} />
      {kind === 'markup' && (
        <TextField
          label="Markup in percent"
          hint="negative: a discount"
          name="markupPercent"
          type="number"
          min={-100}
          max={10_000}
          step={0.01}
          required
        />
      )}
      {kind === 'unit' && (
        <div className="pair">
          <CreditsField label="Credits" name="creditsPerUnit" />
          <SelectField label="Per" name="unit" options={toOptions(units)} />
        </div>
      )}
      {kind === 'tokens' && (
        <div className="pair">
          <CreditsField label="Credits per million input tokens" name="inputCreditsPerMillion" />
          <CreditsField label="Per million output tokens" name="outputCreditsPerMillion" />
        </div>
      )}
    </>
  );
}

function CreditsField(props: { label: string; name: string }) {
  return <TextField {...props} type="number" min={0} max={1_000_000} step="any" required />;
}

function EndRow({ id, what }: PriceRow) {
  return (
    <OperatorAction verb="End" title={`End the price for ${what}`} path={`/prices/${id}/end`}>
      <p>What was accepted keeps its price.</p>
    </OperatorAction>
  );
}
