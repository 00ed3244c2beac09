/** Form of a comparison: one text, up to four models, and the price of all. */
import type { ReactNode } from 'react';
import { ActionButton } from '../../parts/action-button.tsx';
import { MostCredits } from '../../parts/amounts.tsx';

/** Maximum number of models that are compared. */
export const modelsMax = 4;

interface ComparisonFormProps {
  label: 'Prompt' | 'Text';
  text: string;
  setText: (text: string) => void;
  /** Estimated credits of the chosen models. Undefined for a model without an estimate. */
  estimates: readonly (number | undefined)[];
  denial: string | null;
  isPending: boolean;
  run: () => void;
  /** Choice of the endpoint, and of the models. */
  endpoint: ReactNode;
  children: ReactNode;
}

/** Shows the form. */
export function ComparisonForm(props: ComparisonFormProps) {
  const { label, text, setText, estimates, denial, isPending, run, endpoint, children } = props;
  const credits = estimates.reduce<number>((sum, price) => sum + (price ?? NaN), 0);
  const count = estimates.length;
  return (
    <form
      className="card stack"
      aria-label="Comparison"
      onSubmit={(event) => {
        event.preventDefault();
        run();
      }}
    >
      {endpoint}
      <label>
        {label}
        <textarea
          dir="auto"
          required
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      {children}
      <div className="price">
        <p>{count > 0 && !Number.isNaN(credits) && <MostCredits credits={credits} />}</p>
        <ActionButton
          type="submit"
          className="primary"
          disabled={isPending || count === 0}
          disabledReason={denial}
        >
          {isPending ? 'Running…' : `Run ${count} ${count === 1 ? 'model' : 'models'}`}
        </ActionButton>
      </div>
    </form>
  );
}

interface ModelChipsProps {
  models: readonly { id: string; name: string }[];
  chosenIds: readonly string[];
  change: (ids: string[]) => void;
  /** Field that adds further models. */
  children?: ReactNode;
}

/** Shows models, of which up to four are chosen. */
export function ModelChips({ models, chosenIds, change, children }: ModelChipsProps) {
  return (
    <fieldset className="chips">
      <legend>
        Models <span className="hint">up to {modelsMax}</span>
      </legend>
      {models.map(({ id, name }) => {
        const isChosen = chosenIds.includes(id);
        return (
          <label key={id} className="chip">
            <input
              type="checkbox"
              checked={isChosen}
              disabled={!isChosen && chosenIds.length >= modelsMax}
              onChange={() =>
                change(isChosen ? chosenIds.filter((one) => one !== id) : [...chosenIds, id])
              }
            />
            {name}
          </label>
        );
      })}
      {children}
    </fieldset>
  );
}
