/** Settings of a chat: model, system prompt and parameters. */
import { useQuery } from '@tanstack/react-query';
import { useId, type ReactNode } from 'react';
import type { Schemas } from '../../gateway/client.ts';
import { TextField } from '../../parts/fields.tsx';
import { chatModelsQuery, useChatPrices } from '../models/chat-models-query.ts';
import { Credits } from '../../parts/amounts.tsx';

/** Settings as typed. An empty number means the model's default. */
export interface ChatSettings {
  model: string;
  system: string;
  temperature: string;
  maxTokens: string;
}

/** Chat model, as the API lists it. */
export type ChatModel = Schemas['ListModelsAnswer']['models'][number];

/** Maximum price of a default model, in credits per million tokens of its answers. */
const defaultPriceMax = 1000;

/** Returns the chat models, and the ids of those with a moderate price, newest first. */
export function useChatModels() {
  const { data, isPending } = useQuery(chatModelsQuery);
  const prices = useChatPrices();
  const models = data?.models ?? [];
  const times = new Map(data?.data.map(({ id, created }) => [id, created]));
  const suggestedIds = models
    .map(({ id }) => id)
    .filter((id) => (prices?.get(id)?.output ?? Infinity) <= defaultPriceMax)
    .toSorted((one, other) => (times.get(other) ?? 0) - (times.get(one) ?? 0));
  return { models, suggestedIds, isLoading: isPending || prices === null };
}

interface SettingsProps {
  settings: ChatSettings;
  models: readonly ChatModel[];
  /** True until the default model is known, which would change the text while a user types. */
  isLoading: boolean;
  change: (changed: Partial<ChatSettings>) => void;
}

/** Shows the model of a chat, and a button that opens its other settings. */
export function ChatSettingsForm({ change, ...modelField }: SettingsProps) {
  const changeField = (name: keyof ChatSettings, value: string): void => change({ [name]: value });
  const id = useId();
  const { system, temperature, maxTokens } = modelField.settings;
  const changed = [system, temperature, maxTokens].filter((value) => value !== '').length;
  return (
    <div className="row chat-model">
      <ModelField {...modelField} choose={(model) => change({ model })} />
      <button type="button" popoverTarget={id}>
        Settings{changed > 0 && ` (${changed})`}
      </button>
      <section id={id} popover="auto" className="card stack settings" aria-label="Settings">
        <label>
          System prompt
          <textarea
            dir="auto"
            placeholder="You are a helpful assistant."
            value={system}
            onChange={({ target }) => changeField('system', target.value)}
          />
        </label>
        <div className="pair">
          <TextField
            label="Temperature"
            type="number"
            min={0}
            max={2}
            step={0.1}
            placeholder="Model default"
            value={temperature}
            change={(text) => changeField('temperature', text)}
          />
          <TextField
            label="Max tokens"
            type="number"
            min={1}
            step={1}
            placeholder="Model default"
            value={maxTokens}
            change={(text) => changeField('maxTokens', text)}
          />
        </div>
      </section>
    </div>
  );
}

interface ModelFieldProps extends Omit<SettingsProps, 'change'> {
  choose: (id: string) => void;
}

interface ModelSearchProps {
  label: string;
  models: readonly ChatModel[];
  value: string;
  disabled?: boolean;
  change: (text: string) => void;
}

/** Shows a text field that suggests matching models. */
export function ModelSearch({ models, ...field }: ModelSearchProps) {
  const listId = useId();
  return (
    <>
      <TextField
        list={listId}
        spellCheck={false}
        autoComplete="off"
        placeholder="Search models"
        onFocus={({ target }) => target.select()}
        {...field}
      />
      <datalist id={listId}>
        {models.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </datalist>
    </>
  );
}

/** Shows the choice of the model, with its price. */
function ModelField({ settings: { model }, models, isLoading, choose }: ModelFieldProps) {
  const isKnown = models.some(({ id }) => id === model);
  return (
    <div className="field">
      <ModelSearch
        label="Model"
        models={models}
        value={model}
        disabled={isLoading}
        change={choose}
      />
      {isKnown || models.length === 0 ? (
        <ModelPrice model={model} />
      ) : (
        <span className="wrong">Choose a model from the list.</span>
      )}
    </div>
  );
}

/** Shows the price of a model, after `children`. */
export function ModelPrice({ model, children }: { model: string; children?: ReactNode }) {
  const price = useChatPrices()?.get(model);
  if (!price) return null;
  return (
    <span className="hint">
      {children}
      Credits per million tokens: <Credits amount={price.input} /> input,{' '}
      <Credits amount={price.output} /> output
    </span>
  );
}
