/** List from which the model of a request is chosen: name, maker's model, price and usual time. */
import * as Ariakit from '@ariakit/react';
import { ChevronDown } from 'lucide-react';
import { formatAmount } from '../../parts/amounts.tsx';
import { findDefaultPrice } from '../models/price-text.ts';
import { toTitle, type Capability, type Field } from './capability.ts';

/** Returns the name of the field that alone selects the model. Undefined if there is none. */
export function findModelField({ models }: Capability): string | undefined {
  const [first] = models;
  const names = Object.keys(first?.selectedBy ?? {});
  return models.length > 1 && names.length === 1 ? names[0] : undefined;
}

interface ModelPickerProps {
  capability: Capability;
  field: Field;
  value: unknown;
  change: (value: unknown) => void;
}

/** Shows the chosen model, and the list of all models. */
export function ModelPicker({ capability, field, value, change }: ModelPickerProps) {
  const { name, schema } = field;
  const select = (id: string): void => change(id === schema.default ? undefined : id);
  const chosen = value ?? schema.default;
  const current = capability.models.find(({ selectedBy }) => selectedBy[name] === chosen);
  return (
    <div className="field">
      <Ariakit.SelectProvider value={current?.selectedBy[name] ?? ''} setValue={select}>
        <Ariakit.SelectLabel>{toTitle(name)}</Ariakit.SelectLabel>
        <Ariakit.Select className="picker">
          {current && <ModelLine capability={capability} model={current} />}
          <ChevronDown aria-hidden />
        </Ariakit.Select>
        <Ariakit.SelectPopover className="popup" gutter={4} sameWidth fixed>
          {capability.models.map((model) => (
            <Ariakit.SelectItem
              key={model.id}
              className="item picker"
              value={model.selectedBy[name] ?? model.id}
            >
              <ModelLine capability={capability} model={model} />
            </Ariakit.SelectItem>
          ))}
        </Ariakit.SelectPopover>
      </Ariakit.SelectProvider>
    </div>
  );
}

interface ModelLineProps {
  capability: Capability;
  model: Capability['models'][number];
}

function ModelLine({ capability, model }: ModelLineProps) {
  const { displayName, servedBy, typicalSeconds } = model;
  const price = findDefaultPrice(model, capability);
  return (
    <>
      <span>
        {displayName}
        {servedBy !== displayName && <span className="hint block">{servedBy}</span>}
      </span>
      <span className="number">
        {price && `${formatAmount(price.credits)} / ${price.unit}`}
        {typicalSeconds && <span className="hint block">{typicalSeconds} s</span>}
      </span>
    </>
  );
}
