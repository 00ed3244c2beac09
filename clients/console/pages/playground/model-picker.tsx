/** Choice of the model of a request: name, maker's model, price and usual time. */
import { ChevronDown } from 'lucide-react';
import { formatAmount } from '../../parts/amounts.tsx';
import { loadOnOpen } from '../../parts/load-on-open.tsx';
import { findDefaultPrice } from '../models/price-text.ts';
import { toTitle, type Capability, type Field } from './capability.ts';

/** Returns the name of the field that alone selects the model. Undefined if there is none. */
export function findModelField({ models }: Capability): string | undefined {
  const [first] = models;
  const names = Object.keys(first?.selectedBy ?? {});
  return models.length > 1 && names.length === 1 ? names[0] : undefined;
}

/** Properties of the choice of a model. */
export interface ModelPickerProps {
  capability: Capability;
  field: Field;
  value: unknown;
  change: (value: unknown) => void;
}

/** Returns the model that a field selects with its value, or with its default. */
export const findModel = ({ capability, field, value }: ModelPickerProps) =>
  capability.models.find(
    ({ selectedBy }) => selectedBy[field.name] === (value ?? field.schema.default),
  );

/** Shows the chosen model, and the list of all models after a click. */
export const ModelPicker = loadOnOpen<ModelPickerProps>(
  () => import('./model-list.tsx'),
  ({ opening, ...props }) => (
    <div className="field">
      <span aria-hidden="true">{toTitle(props.field.name)}</span>
      <button
        type="button"
        className="picker"
        role="combobox"
        aria-haspopup="listbox"
        aria-controls={`models-${props.field.name}`}
        aria-expanded={false}
        aria-label={toTitle(props.field.name)}
        {...opening}
      >
        <ChosenModel {...props} />
      </button>
    </div>
  ),
);

/** Shows the chosen model on the button. */
export function ChosenModel(props: ModelPickerProps) {
  const model = findModel(props);
  return (
    <>
      {model && <ModelLine capability={props.capability} model={model} />}
      <ChevronDown aria-hidden />
    </>
  );
}

interface ModelLineProps {
  capability: Capability;
  model: Capability['models'][number];
}

/** Shows a model with its price and usual time. */
export function ModelLine({ capability, model }: ModelLineProps) {
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
