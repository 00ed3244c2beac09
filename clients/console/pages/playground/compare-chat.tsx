/** Compares chat models: one prompt on up to four of them, with the price, tokens and time of each answer. */
import { useMutation, useQueries, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { useSessionKey } from '../../gateway/session.ts';
import { formatAmount } from '../../parts/amounts.tsx';
import { useDebounced } from '../../parts/debounced.ts';
import { ErrorMessage } from '../../parts/states.tsx';
import { ChatMessage } from './chat-message.tsx';
import { ModelPrice, ModelSearch, useChatModels, type ChatModel } from './chat-settings.tsx';
import { streamChat, type Message } from './chat-stream.ts';
import { ComparisonForm, ModelChips, modelsMax } from './comparison-form.tsx';
import { chatEstimateQuery } from './estimate-query.ts';

interface Answer {
  message: Message;
  error: Error | null;
}

const examplePrompt = 'Explain in two sentences why lighthouses flash.';
const debounceMs = 600;

const buildBody = (model: string, content: string) => ({
  model,
  messages: [{ role: 'user', content }],
});

const noAnswer = (model: string): Answer => ({
  message: { id: 0, role: 'assistant', content: '', model },
  error: null,
});

/** Shows the comparison of chat models. */
export function ChatComparison({ endpoint }: { endpoint: ReactNode }) {
  const { models, suggestedIds } = useChatModels();
  const [changedIds, setChosenIds] = useState<readonly string[] | null>(null);
  const chosenIds = changedIds ?? suggestedIds.slice(0, 2);
  const [text, setText] = useState(examplePrompt);
  const debounced = useDebounced(text, debounceMs);
  const estimates = useQueries({
    queries: chosenIds.map((model) => ({
      ...chatEstimateQuery(JSON.stringify(buildBody(model, debounced))),
      enabled: debounced.trim() !== '',
    })),
  }).map(({ data }) => data?.data.most);
  const { answers, run, isPending } = useAnswers();
  return (
    <div className="stack">
      <ComparisonForm
        label="Prompt"
        {...{ text, setText, estimates, isPending, endpoint }}
        denial={useSessionKey().explainDenial('chat')}
        run={() => run({ modelIds: chosenIds, text })}
      >
        <ModelChips
          models={chosenIds.map((id) => ({ id, name: id }))}
          chosenIds={chosenIds}
          change={setChosenIds}
        >
          {chosenIds.length < modelsMax && (
            <AddModel
              models={models.filter(({ id }) => !chosenIds.includes(id))}
              add={(id) => setChosenIds([...chosenIds, id])}
            />
          )}
        </ModelChips>
      </ComparisonForm>
      <div className="comparison">
        {chosenIds.map((model, index) => {
          const { message, error } = answers.get(model) ?? noAnswer(model);
          const most = estimates[index];
          return (
            <section key={model} className="card stack" aria-label={model}>
              <h2>{model}</h2>
              <ModelPrice model={model}>
                {most !== undefined && `at most ${formatAmount(most)} credits · `}
              </ModelPrice>
              {answers.has(model) && <ChatMessage message={message} />}
              <ErrorMessage error={error} />
            </section>
          );
        })}
      </div>
    </div>
  );
}

interface Comparison {
  modelIds: readonly string[];
  text: string;
}

/** Returns the answers by model, and a function that sends a text to models. */
function useAnswers() {
  const client = useQueryClient();
  const [answers, setAnswers] = useState<ReadonlyMap<string, Answer>>(new Map());
  const { mutate: run, isPending } = useMutation({
    async mutationFn({ modelIds, text }: Comparison) {
      setAnswers(new Map(modelIds.map((model) => [model, noAnswer(model)])));
      const ask = async (model: string): Promise<void> => {
        const change = (edit: (answer: Answer) => Answer): void =>
          setAnswers((last) => new Map(last).set(model, edit(last.get(model) ?? noAnswer(model))));
        try {
          await streamChat(buildBody(model, text), (edit) =>
            change((answer) => ({ ...answer, message: edit(answer.message) })),
          );
        } catch (error) {
          change((answer) => ({ ...answer, error: error instanceof Error ? error : null }));
        }
      };
      await Promise.all(modelIds.map(ask));
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['usage'] }),
  });
  return { answers, run, isPending };
}

interface AddModelProps {
  models: readonly ChatModel[];
  add: (id: string) => void;
}

/** Shows a field that adds a model once its id is typed or chosen. */
function AddModel({ models, add }: AddModelProps) {
  const [typed, setTyped] = useState('');
  const change = (text: string): void => {
    const isModel = models.some(({ id }) => id === text);
    setTyped(isModel ? '' : text);
    if (isModel) add(text);
  };
  return <ModelSearch label="Add a model" models={models} value={typed} change={change} />;
}
