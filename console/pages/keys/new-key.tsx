/** The form of a new key. It grants no more than the key that one is signed in with. */
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api } from '../../gateway/client.ts';
import { useWho, type Who } from '../../gateway/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { keysQuery, useModelIds } from './key-query.ts';
import { LimitFields, limitOf, type LimitWish } from './limit-fields.tsx';

type Scope = Who['scopes'][number];

const scopeWords: Record<Scope, string> = {
  chat: 'chat',
  'studio:image': 'make and edit pictures',
  'studio:video': 'make and edit films',
  'studio:audio': 'make speech, music and sounds; transcribe',
  'studio:read': 'read jobs and their results',
  'models:read': 'list the models',
  'storage:write': 'upload files',
  'files:delete': 'delete files and results',
  'usage:read': 'read credits and usage',
  'keys:read': 'list keys',
  'keys:write': 'make and revoke keys; webhook secret and notices',
};
const scopes = Object.keys(scopeWords).filter((name): name is Scope => name in scopeWords);

interface NewKeyProps {
  onClose: () => void;
  /** Told the key itself, once. */
  show: (key: string) => void;
}

/** Asks for the fields of a new key. */
export function NewKey({ onClose, show }: NewKeyProps) {
  const who = useWho();
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState<readonly Scope[]>(who.scopes);
  const [models, setModels] = useState<readonly string[]>([]);
  const [limit, setLimit] = useState<LimitWish>({ credits: '', per: 'month' });
  const [end, setEnd] = useState('');
  const create = async (): Promise<void> => {
    const wanted = limitOf(limit);
    const made = await answered(
      api.POST('/api/v1/api-keys', {
        body: {
          name,
          scopes: [...chosen],
          ...(models.length > 0 && { allowedModels: [...models] }),
          ...(wanted && { limit: wanted }),
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
      verb="Create the key"
      act={create}
      onClose={onClose}
      isIncomplete={chosen.length === 0}
    >
      <label>
        Name
        <input
          required
          maxLength={64}
          placeholder="my laptop"
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      <Scopes who={who} chosen={chosen} choose={setChosen} />
      <Models who={who} chosen={models} choose={setModels} />
      <LimitFields wish={limit} change={setLimit} />
      <label>
        <span>
          Expires <span className="hint">optional; your own time</span>
        </span>
        <input type="datetime-local" value={end} onChange={({ target }) => setEnd(target.value)} />
      </label>
    </Ask>
  );
}

interface ChoiceProps<Item> {
  who: Who;
  chosen: readonly Item[];
  choose: (chosen: readonly Item[]) => void;
}

const toggled = <Item,>(chosen: readonly Item[], item: Item): Item[] =>
  chosen.includes(item) ? chosen.filter((each) => each !== item) : [...chosen, item];

function Scopes({ who, chosen, choose }: ChoiceProps<Scope>) {
  return (
    <fieldset>
      <legend>It may</legend>
      <div className="checks">
        {scopes.map((scope) => (
          <label
            key={scope}
            className="check"
            title={
              who.scopes.includes(scope)
                ? scope
                : 'Your own key does not have this scope, so the new key cannot have it.'
            }
          >
            <input
              type="checkbox"
              disabled={!who.scopes.includes(scope)}
              checked={chosen.includes(scope)}
              onChange={() => choose(toggled(chosen, scope))}
            />
            {scopeWords[scope]}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Models({ who, chosen, choose }: ChoiceProps<string>) {
  const [words, setWords] = useState('');
  const shown = useModelIds(who).filter((id) =>
    id.toLowerCase().includes(words.trim().toLowerCase()),
  );
  const all = who.allowedModels === null ? 'all models' : 'the models of your own key';
  return (
    <details>
      <summary>
        Models: {chosen.length === 0 ? all : chosen.length === 1 ? chosen[0] : chosen.length}
      </summary>
      <div className="stack">
        <label>
          <span>
            Find <span className="hint">none chosen: {all}</span>
          </span>
          <input type="search" value={words} onChange={({ target }) => setWords(target.value)} />
        </label>
        <div className="model-choice checks" role="group" aria-label="Models">
          {shown.map((id) => (
            <label key={id} className="check">
              <input
                type="checkbox"
                checked={chosen.includes(id)}
                onChange={() => choose(toggled(chosen, id))}
              />
              {id}
            </label>
          ))}
        </div>
      </div>
    </details>
  );
}
