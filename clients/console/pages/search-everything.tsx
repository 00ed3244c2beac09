/** Search of everything: pages, documentation, models, keys, jobs and requests. */
import * as Ariakit from '@ariakit/react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { api, unwrap } from '../gateway/client.ts';
import { useIsOperator } from '../gateway/operator.ts';
import { useSessionKey } from '../gateway/session.ts';
import { useDebounced } from '../parts/debounced.ts';
import { Dialog } from '../parts/dialog.tsx';
import { formatType } from '../parts/names.ts';
import { callerPages, operatorPages } from '../parts/shell.tsx';
import { keysQuery } from './keys/key-query.ts';
import { chatModelsQuery } from './models/chat-models-query.ts';
import { capabilitiesQuery } from './playground/capabilities-query.ts';
import { useOpenForm } from './playground/draft.ts';
import { requestKinds, requestQuery } from './requests/request-query.ts';

/** Target of the search. */
interface Target {
  group: string;
  name: string;
  hint?: string;
  open: () => void;
}

/** Number of targets that are shown of each group. */
const groupMax = 6;
const debounceMs = 200;
const docs = [
  ['API reference', '/docs'],
  ['OpenAPI document', '/api/v1/openapi.json'],
  ['Documentation for agents (llms.txt)', '/llms.txt'],
  ['Status of the gateway', '/readyz'],
] as const;

/** Shows the search of everything. */
export default function SearchEverything({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const words = text.toLowerCase().split(/\s+/);
  const targets = [...useFixedTargets(), ...useModels(), ...useKeys()].filter(({ name, hint }) =>
    words.every((word) => `${name} ${hint ?? ''}`.toLowerCase().includes(word)),
  );
  const records = [...useJobs(text.trim()), ...useRequest(text.trim())];
  const groups = Map.groupBy([...targets, ...records], ({ group }) => group);
  return (
    <Dialog title="Search everything" onClose={onClose}>
      <Ariakit.ComboboxProvider defaultOpen setValue={setText}>
        <Ariakit.Combobox
          autoSelect="always"
          aria-label="Search"
          placeholder="Jobs, requests, keys, models, pages, docs"
        />
        <Ariakit.ComboboxList alwaysVisible className="found">
          {[...groups].map(([group, found]) => (
            <Ariakit.ComboboxGroup key={group}>
              <Ariakit.ComboboxGroupLabel className="hint">{group}</Ariakit.ComboboxGroupLabel>
              {found.slice(0, groupMax).map(({ name, hint, open }, index) => (
                <Ariakit.ComboboxItem
                  key={`${name} ${index}`}
                  className="item"
                  hideOnClick={false}
                  setValueOnClick={false}
                  focusOnHover
                  onClick={() => {
                    onClose();
                    open();
                  }}
                >
                  <span>{name}</span>
                  {hint && <span className="hint">{hint}</span>}
                </Ariakit.ComboboxItem>
              ))}
            </Ariakit.ComboboxGroup>
          ))}
          {groups.size === 0 && <p className="dim">Nothing found</p>}
        </Ariakit.ComboboxList>
      </Ariakit.ComboboxProvider>
    </Dialog>
  );
}

function useFixedTargets(): Target[] {
  const [, navigate] = useLocation();
  const pages = [...callerPages, ...(useIsOperator() ? operatorPages : [])];
  return [
    ...pages.map(({ name, to }) => ({ group: 'Pages', name, open: () => navigate(to) })),
    ...docs.map(([name, url]) => ({
      group: 'Documentation',
      name,
      open: () => void window.open(url, '_blank', 'noreferrer'),
    })),
  ];
}

function useModels(): Target[] {
  const [, navigate] = useLocation();
  const openForm = useOpenForm();
  const { data: studio } = useQuery(capabilitiesQuery);
  const mayChat = useSessionKey().explainDenial('models:read') === null;
  const { data: chat } = useQuery({ ...chatModelsQuery, enabled: mayChat });
  const studioModels = (studio?.data ?? []).flatMap((capability) =>
    capability.models.map((model) => ({
      group: 'Models',
      name: model.displayName,
      hint: formatType(capability.type),
      open: () => openForm(capability, model.selectedBy),
    })),
  );
  const chatModels = (chat?.data ?? []).map(({ id }) => ({
    group: 'Chat models',
    name: id,
    open: () => navigate(`/playground/chat?model=${encodeURIComponent(id)}`),
  }));
  return [...studioModels, ...chatModels];
}

function useKeys(): Target[] {
  const [, navigate] = useLocation();
  const mayRead = useSessionKey().explainDenial('keys:read') === null;
  const { data } = useQuery({ ...keysQuery, enabled: mayRead });
  return (data?.keys ?? []).map(({ name, keyPrefix }) => ({
    group: 'API keys',
    name,
    hint: keyPrefix,
    open: () => navigate('/keys'),
  }));
}

/** Returns the jobs that the API finds by their prompt or an id. */
function useJobs(text: string): Target[] {
  const [, navigate] = useLocation();
  const search = useDebounced(text, debounceMs);
  const mayRead = useSessionKey().explainDenial('studio:read') === null;
  const { data } = useQuery({
    queryKey: ['found-jobs', search],
    queryFn: () =>
      unwrap(api.GET('/api/v1/studio/jobs', { params: { query: { limit: groupMax, search } } })),
    enabled: mayRead && search !== '',
    placeholderData: keepPreviousData,
  });
  if (text === '') return [];
  return (data?.data ?? []).map(({ jobId, prompt, type, status }) => ({
    group: 'Jobs',
    name: prompt ?? jobId,
    hint: `${formatType(type)} · ${status}`,
    open: () => navigate(`/jobs/${jobId}`),
  }));
}

/** Returns the chat or the rejected request that has this id or request id. */
function useRequest(text: string): Target[] {
  const [, navigate] = useLocation();
  const id = useDebounced(text, debounceMs);
  const mayRead = useSessionKey().explainDenial('usage:read') === null;
  const { data } = useQuery({
    ...requestQuery(id),
    enabled: mayRead && /^(?:req|rej|chat)_[0-9a-f]{32}$/.test(id),
    retry: false,
  });
  if (!data || id !== text) return [];
  const { kind, status, model } = data.data;
  return [
    {
      group: 'Requests',
      name: id,
      hint: [requestKinds[kind], model, status].filter(Boolean).join(' · '),
      open: () => navigate(`/requests/${id}`),
    },
  ];
}
