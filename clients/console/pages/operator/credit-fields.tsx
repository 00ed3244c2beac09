/** Form fields of actions that change credits. */
import { useState, type ComponentProps } from 'react';
import { TextField } from '../../parts/fields.tsx';

/** Shows the field for an amount of credits. */
export function CreditsField(input: Omit<ComponentProps<typeof TextField>, 'label'>) {
  return (
    <TextField
      label="Credits"
      name="credits"
      type="number"
      min={0.000001}
      max={1_000_000_000}
      step="any"
      {...input}
    />
  );
}

/** Shows the field for the unique id of a credit change, prefilled with a random id. */
export function CreditChangeIdField({ hint }: { hint: string }) {
  const [id] = useState(() => `console-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`);
  return <TextField label="Id" hint={hint} name="id" required maxLength={100} defaultValue={id} />;
}
