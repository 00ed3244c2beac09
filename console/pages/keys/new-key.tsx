/** The form of a new key, which has at most the scopes and models of the key of the session. */
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api } from '../../gateway/client.ts';
import { useWho, type Who } from '../../gateway/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { keysQuery, useModelIds } from './key-query.ts';
import { LimitFields, limitOf, type LimitValues } from './limit-fields.tsx';
import { Scopes, appScopes, type Scope } from './scopes.tsx';

interface NewKeyProps {
  onClose: () => void;
  /** Receives the new key, which is shown once. */
  show: (key: string) => void;
}

/** Shows the form of a new key. */
export function NewKey({ onClose, show }: NewKeyProps) {
  const who = useWho();
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState<readonly Scope[]>(() => appScopes(who));
  const [models, setModels] = useState<readonly string[]>([]);
  const [limit, setLimit] = useState<LimitValues>({ credits: '', per: 'month' });
  const [end, setEnd] = useState('');
  const create = async (): Promise<void> => {
    const limitOfKey = limitOf(limit);
    const made = await answered(
      api.POST('/api/v1/api-keys', {
        body: {
          name,
          scopes: [...chosen],
          ...(models.length > 0 && { allowedModels: [...models] }),
          ...(limitOfKey && { limit: limitOfKey }),
          ...(end !== '' && { expiresAt: new Date(end).getTime() }),
        },
      }),
    );
    await client.invalidateQueries({ queryKey: keysQuery.queryKey });
    show(made.key);
  };
  return (
    <Ask
      title="New key"
      verb="Create key"
      act={create}
      onClose={onClose}
      isIncomplete={chosen.length === 0}
    >
      <label>
        Name
        <input
          required
          maxLength={64}
          placeholder="My app"
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      <Scopes who={who} chosen={chosen} choose={setChosen} />
      <Models who={who} chosen={models} choose={setModels} />
      <LimitFields values={limit} change={setLimit} />
      <label>
        <span>
          Expires <span className="hint">optional; your local time</span>
        </span>
        <input type="datetime-local" value={end} onChange={({ target }) => setEnd(target.value)} />
      </label>
    </Ask>
  );
}

interface ModelsProps {
  who: Who;
  chosen: readonly string[];
  choose: (chosen: readonly string[]) => void;
}

function Models({ who, chosen, choose }: ModelsProps) {
  const [text, setText] = useState('');
  const shown = useModelIds(who).filter((id) =>
    id.toLowerCase().includes(text.trim().toLowerCase()),
  );
  const toggle = (id: string, isChosen: boolean): void => {
    const others = chosen.filter((each) => each !== id);
    choose(isChosen ? [...others, id] : others);
  };
  const all = who.allowedModels === null ? 'all models' : 'the models of your own key';
  return (
    <details>
      <summary>
        Models: {chosen.length === 0 ? all : chosen.length === 1 ? chosen[0] : chosen.length}
      </summary>
      <div className="stack">
        <label>
          <span>
            Search <span className="hint">none selected: {all}</span>
          </span>
          <input type="search" value={text} onChange={({ target }) => setText(target.value)} />
        </label>
        <div className="model-choice checks" role="group" aria-label="Models">
          {shown.map((id) => (
            <label key={id} className="check">
              <input
                type="checkbox"
                checked={chosen.includes(id)}
                onChange={({ target }) => toggle(id, target.checked)}
              />
              {id}
            </label>
          ))}
        </div>
      </div>
    </details>
  );
}
