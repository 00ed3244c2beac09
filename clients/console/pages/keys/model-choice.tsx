/** Selects the models that a new key may use. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { SessionKey } from '../../gateway/session.ts';
import { TextField } from '../../parts/fields.tsx';
import { chatModelsQuery } from '../models/chat-models-query.ts';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';

interface ModelChoiceProps {
  sessionKey: SessionKey;
  /** Ids of the selected models. An empty list allows all models. */
  selected: readonly string[];
  select: (selected: string[]) => void;
}

/** Shows a collapsible list of models with a search field. */
export function ModelChoice({ sessionKey, selected, select }: ModelChoiceProps) {
  const [text, setText] = useState('');
  const matchingIds = useModelIds(sessionKey).filter((id) =>
    id.toLowerCase().includes(text.trim().toLowerCase()),
  );
  const toggleModel = (id: string, isSelected: boolean): void => {
    const otherModels = selected.filter((model) => model !== id);
    select(isSelected ? [...otherModels, id] : otherModels);
  };
  const byDefault = sessionKey.allowedModels === null ? 'all models' : 'the models of your own key';
  return (
    <details>
      <summary>
        Models:{' '}
        {selected.length === 0 ? byDefault : selected.length === 1 ? selected[0] : selected.length}
      </summary>
      <div className="stack">
        <TextField
          label="Search"
          hint={`select none to allow ${byDefault}`}
          type="search"
          value={text}
          change={setText}
        />
        <div className="model-choice checks" role="group" aria-label="Models">
          {matchingIds.map((id) => (
            <label key={id} className="check">
              <input
                type="checkbox"
                checked={selected.includes(id)}
                onChange={({ target }) => toggleModel(id, target.checked)}
              />
              {id}
            </label>
          ))}
        </div>
      </div>
    </details>
  );
}

/** Returns the ids of all models that the session's key may use and list, sorted. */
function useModelIds(sessionKey: SessionKey): string[] {
  const { data: studio } = useQuery({
    ...capabilitiesQuery,
    enabled: sessionKey.explainDenial('studio:read') === null,
  });
  const { data: chat } = useQuery({
    ...chatModelsQuery,
    enabled: sessionKey.explainDenial('models:read') === null,
  });
  const ids = [
    ...(studio?.data.flatMap(({ models }) => models.map(({ id }) => id)) ?? []),
    ...(chat?.models.map(({ id }) => id) ?? []),
  ];
  const allowed = sessionKey.allowedModels;
  return [...new Set(ids)].filter((id) => allowed === null || allowed.includes(id)).toSorted();
}
