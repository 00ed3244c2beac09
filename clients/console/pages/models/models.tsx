/** Page of all models with their prices, and a button to try each. */
import { useQuery } from '@tanstack/react-query';
import { useSessionKey } from '../../gateway/session.ts';
import { useQueryString } from '../../parts/query-string.ts';
import { TabButtons, TextField, toOptions } from '../../parts/fields.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Empty } from '../../parts/states.tsx';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';
import { chatColumns, findChatModels } from './chat-columns.tsx';
import { chatModelsQuery, useChatPrices } from './chat-models-query.ts';
import { findStudioModels, media, studioColumns } from './studio-columns.tsx';

/** Shows the models page. */
export default function Models() {
  const [search, change] = useQueryString();
  const text = search.get('find') ?? '';
  const medium = media.find((name) => name === search.get('medium')) ?? 'All';
  const terms = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (
    <>
      <div className="head">
        <h1>Models & prices</h1>
        <TextField
          label="Search"
          className="check"
          type="search"
          placeholder="veo, image edit, claude…"
          value={text}
          change={(next) => change('find', next)}
        />
      </div>
      <div className="stack">
        <TabButtons
          label="Medium"
          options={toOptions(media)}
          value={medium}
          change={(name) => change('medium', name === 'All' ? '' : name)}
        />
        {medium !== 'Chat' && <StudioModels terms={terms} medium={medium} />}
        {(medium === 'All' || medium === 'Chat') && <ChatModels terms={terms} />}
      </div>
    </>
  );
}

function StudioModels({ terms, medium }: { terms: readonly string[]; medium: string }) {
  const denial = useSessionKey().explainDenial('studio:read');
  const { data, error } = useQuery({ ...capabilitiesQuery, enabled: denial === null });
  const rows = data && findStudioModels(data.data, terms, medium);
  if (denial) return <Empty title="Studio models">{denial}</Empty>;
  return (
    <Panel
      title="Studio models"
      columns={studioColumns}
      items={rows}
      rowId={({ capability, model }) => `${capability.type} ${JSON.stringify(model.selectedBy)}`}
      error={error}
      empty="No Studio models match this search"
    >
      <RowCount rows={rows} />
    </Panel>
  );
}

function ChatModels({ terms }: { terms: readonly string[] }) {
  const denial = useSessionKey().explainDenial('models:read');
  const { data, error } = useQuery({ ...chatModelsQuery, enabled: denial === null });
  const prices = useChatPrices(denial === null);
  const rows = data && findChatModels(data.models, prices ?? new Map(), terms);
  if (denial) return <Empty title="Chat models">{denial}</Empty>;
  return (
    <Panel
      title="Chat models"
      columns={chatColumns}
      items={rows}
      rowId={({ model }) => model.id}
      error={error}
      empty="No chat models match this search"
      caption="Context and maximum output in tokens; prices in credits per million tokens"
    >
      <RowCount rows={rows} />
    </Panel>
  );
}

function RowCount({ rows = [] }: { rows: readonly unknown[] | undefined }) {
  return <span className="dim">{rows.length}</span>;
}
