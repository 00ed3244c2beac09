/**
 * `npm run dev -- catalog`: rebuilds chat/chat-models.json from its sources, and prints what was left out and where
 * sources disagree. Review the diff before you commit it.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { chatProviders } from '../../chat/chat-providers.ts';
import { buildChatRows, sourceNames } from './chat-rows.ts';
import { buildEmbeddingRows } from './embedding-rows.ts';
import { fetchChatSources, packages } from './chat-sources.ts';

const cache = fileURLToPath(new URL('../../.cache/catalog-sources', import.meta.url));
const target = fileURLToPath(new URL('../../chat/chat-models.json', import.meta.url));

await mkdir(cache, { recursive: true });
const names = chatProviders.map(({ name }) => sourceNames(name).piAi);
const today = new Date().toISOString().slice(0, 10);
const fetched = await fetchChatSources(cache, names);
const { rows: chatRows, notes } = buildChatRows(fetched, chatProviders, today);
const rows = [...chatRows, ...buildEmbeddingRows(fetched)].toSorted((a, b) =>
  a.id < b.id ? -1 : 1,
);
const sources = Object.values(packages).map(({ name, version }) => `${name}@${version}`);
await writeFile(target, `${JSON.stringify({ builtOn: today, sources, models: rows }, null, 2)}\n`);
for (const note of notes) process.stdout.write(`${note}\n`);
process.stdout.write(`${rows.length} models\n`);
