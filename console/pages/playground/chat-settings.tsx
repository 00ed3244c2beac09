/** The settings of a chat: model, system prompt and parameters. */
import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { pricingQuery } from '../../gateway/pricing.ts';
import { Credits } from '../../parts/values.tsx';

/** Values of the settings; numbers as typed, empty for the default of the model. */
export interface ChatSettings {
  model: string;
  system: string;
  temperature: string;
  maxTokens: string;
}

/** Chat model in the list of models. */
export type ChatModel = Schemas['ListModelsAnswer']['models'][number];

/** Returns the chat models. */
export function useChatModels(): readonly ChatModel[] {
  const { data } = useQuery({
    queryKey: ['models'],
    queryFn: () => answered(api.GET('/api/v1/models')),
    staleTime: Infinity,
  });
  return data?.models ?? [];
}

interface SettingsProps {
  settings: ChatSettings;
  models: readonly ChatModel[];
  change: (changed: Partial<ChatSettings>) => void;
}

/** Shows the settings. */
export function Settings({ settings, models, change }: SettingsProps) {
  const set = (name: keyof ChatSettings, value: string): void => change({ [name]: value });
  return (
    <section className="card stack settings" aria-label="Settings">
      <ModelField settings={settings} models={models} choose={(id) => set('model', id)} />
      <label>
        System prompt
        <textarea
          placeholder="You are a helpful assistant."
          value={settings.system}
          onChange={({ target }) => set('system', target.value)}
        />
      </label>
      <div className="pair">
        <label>
          Temperature
          <input
            type="number"
            min={0}
            max={2}
            step={0.1}
            placeholder="Model default"
            value={settings.temperature}
            onChange={({ target }) => set('temperature', target.value)}
          />
        </label>
        <label>
          Max tokens
          <input
            type="number"
            min={1}
            step={1}
            placeholder="Model default"
            value={settings.maxTokens}
            onChange={({ target }) => set('maxTokens', target.value)}
          />
        </label>
      </div>
    </section>
  );
}

interface ModelFieldProps extends Pick<SettingsProps, 'settings' | 'models'> {
  choose: (id: string) => void;
}

/** Shows a text field that suggests the models whose id or name contains the text. */
function ModelField({ settings: { model }, models, choose }: ModelFieldProps) {
  const list = useId();
  const isKnown = models.some(({ id }) => id === model);
  return (
    <div className="field">
      <label>
        Model
        <input
          list={list}
          spellCheck={false}
          autoComplete="off"
          placeholder="Search models"
          value={model}
          onFocus={({ target }) => target.select()}
          onChange={({ target }) => choose(target.value)}
        />
      </label>
      <datalist id={list}>
        {models.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </datalist>
      {isKnown || models.length === 0 ? (
        <ModelPrice model={model} />
      ) : (
        <span className="wrong">Choose a model from the list.</span>
      )}
    </div>
  );
}

function ModelPrice({ model }: { model: string }) {
  const { data } = useQuery(pricingQuery);
  const price = data?.chat.find((each) => each.model === model);
  if (!price) return null;
  return (
    <span className="hint">
      <Credits amount={price.input} /> credits in, <Credits amount={price.output} /> out per million
      tokens
    </span>
  );
}
