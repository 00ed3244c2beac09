/** Contact sheet of the items of a bulk job that wait for a decision: choose pictures, approve or stop them together. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { requestJson, type Schemas } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { formatAmount } from '../../parts/amounts.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { showToast } from '../../parts/toast.tsx';

type Item = Schemas['BulkItem'];
type Decisions = Schemas['BulkDecisions'];

/** Chosen item, with the index of the chosen output by step. */
interface Choice {
  item: Item;
  outputs: Record<string, number>;
}

/** Returns the files of an item, each with the choice that it stands for. */
function listFiles(item: Item): { url: string; isImage: boolean; choice: Choice }[] {
  return (item.awaiting[0]?.takes ?? []).flatMap(({ step, chosen, outputs }) =>
    outputs.map(({ output, url, contentType }) => ({
      url,
      isImage: contentType.startsWith('image/'),
      choice: { item, outputs: chosen ? { [step]: output } : {} },
    })),
  );
}

const isSame = (one: Choice | undefined, other: Choice): boolean =>
  JSON.stringify(one?.outputs) === JSON.stringify(other.outputs);

/** Sends the decision for items with the same step and outputs in one request. */
async function decideItems(
  bulkId: string,
  { decision, choices }: { decision: 'approve' | 'reject'; choices: readonly Choice[] },
): Promise<Decisions['items']> {
  const groups = Map.groupBy(choices, ({ item, outputs }) =>
    JSON.stringify({
      step: item.awaiting[0]?.step,
      ...(decision === 'approve' && { outputs }),
    }),
  );
  const decided: Decisions['items'] = [];
  for (const [fields, group] of groups) {
    const items = group.map(({ item }) => item.index);
    for (let remaining = 1; remaining > 0;) {
      const body: object = { ...JSON.parse(fields), decision, items };
      const path = `/api/v1/studio/bulk/${bulkId}/decisions`;
      const { data } = await requestJson<{ data: Decisions }>(path, { method: 'POST', body });
      if (data.remaining === 0) decided.push(...data.items);
      ({ remaining } = data);
    }
  }
  return decided;
}

/** Shows the files of the items, and the buttons that decide about the chosen ones. */
export function AwaitingItems({ bulkId, items }: { bulkId: string; items: readonly Item[] }) {
  const [chosen, setChosen] = useState<ReadonlyMap<number, Choice>>(new Map());
  if (items.length === 0) return null;
  const toggle = (choice: Choice): void => {
    const next = new Map(chosen);
    const { index } = choice.item;
    if (isSame(chosen.get(index), choice)) next.delete(index);
    else next.set(index, choice);
    setChosen(next);
  };
  const firstFiles = items.flatMap((item) => listFiles(item).slice(0, 1));
  const chooseAll = (): void =>
    setChosen(new Map(firstFiles.map(({ choice }) => [choice.item.index, choice])));
  return (
    <section className="card stack" aria-label="Items that wait for you">
      <div className="head">
        <h2>{items.length} wait for you</h2>
        <button type="button" onClick={chooseAll}>
          Choose all
        </button>
      </div>
      <ul className="wall">
        {items.flatMap((item) =>
          listFiles(item).map(({ url, isImage, choice }, position) => (
            <Thumbnail
              key={`${item.index} ${position}`}
              {...{ url, isImage, item }}
              label={`${item.id ?? item.index}, file ${position + 1}`}
              isChosen={isSame(chosen.get(item.index), choice)}
              toggle={() => toggle(choice)}
            />
          )),
        )}
      </ul>
      <DecisionButtons
        bulkId={bulkId}
        // Items that are decided elsewhere leave the sheet.
        choices={items.flatMap(({ index }) => chosen.get(index) ?? [])}
        clear={() => setChosen(new Map())}
      />
    </section>
  );
}

interface DecisionButtonsProps {
  bulkId: string;
  choices: readonly Choice[];
  clear: () => void;
}

function DecisionButtons({ bulkId, choices, clear }: DecisionButtonsProps) {
  const client = useQueryClient();
  const denial = useSessionKey().explainDenial('studio:image');
  const { isPending, error, mutate } = useMutation({
    mutationFn: (decision: 'approve' | 'reject') => decideItems(bulkId, { decision, choices }),
    onSuccess(decided, decision) {
      const refused = decided.flatMap((item) => item.error?.message ?? []);
      const verb = decision === 'approve' ? 'approved' : 'stopped';
      const done = `${decided.length - refused.length} ${verb}`;
      showToast([done, ...refused.slice(0, 1)].join('; '));
      clear();
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['bulk'] }),
  });
  const credits = choices.reduce((sum, { item }) => sum + (item.awaiting[0]?.credits ?? 0), 0);
  const isDisabled = isPending || choices.length === 0;
  return (
    <>
      <div className="row">
        <ActionButton
          className="primary"
          disabled={isDisabled}
          disabledReason={denial}
          onClick={() => mutate('approve')}
        >
          {`Approve ${choices.length} for ${formatAmount(credits)} credits`}
        </ActionButton>
        <ActionButton
          className="danger"
          disabled={isDisabled}
          disabledReason={denial}
          onClick={() => mutate('reject')}
        >
          {`Stop ${choices.length}`}
        </ActionButton>
      </div>
      <ErrorMessage error={error} />
    </>
  );
}

interface ThumbnailProps {
  item: Item;
  url: string;
  isImage: boolean;
  label: string;
  isChosen: boolean;
  toggle: () => void;
}

/** Shows a file as a picture that can be chosen, with a link to its job. */
const Thumbnail = ({ item, url, isImage, label, isChosen, toggle }: ThumbnailProps) => (
  <li>
    <label className="pick" data-chosen={isChosen}>
      {isImage ? <img src={url} alt="" loading="lazy" /> : <span>{label}</span>}
      <input type="checkbox" aria-label={label} checked={isChosen} onChange={toggle} />
    </label>
    <Link href={`/jobs/${item.jobId}`}>{item.id ?? item.index}</Link>
  </li>
);
