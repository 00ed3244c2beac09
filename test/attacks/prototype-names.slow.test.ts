/** Names of members of every object are names like any other, wherever a caller chooses one. */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway();
const names = Object.getOwnPropertyNames(Object.prototype);

const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lamp' } };
const edit = { prompt: 'a lamp', imageUrls: [{ $from: 'art' }] };
const pipeline = (step: object) => ({
  path: '/studio/pipelines/estimate',
  body: { steps: [art, { id: 'edit', use: 'image/edit', body: edit, ...step }] },
});
const picture = (fields: object) => ({
  path: '/studio/image/generate/estimate',
  body: { prompt: 'a lamp', ...fields },
});
const bulk = (fields: object) => ({
  path: '/studio/bulk/estimate',
  body: { items: [art], ...fields },
});
const chat = (fields: object) => ({
  path: '/chat/completions',
  body: { model: 'none', messages: [{ role: 'user', content: 'hi' }], ...fields },
});
type Sent = { path: string; body?: object };

/** Requests that contain a name where callers choose one. */
const listRequests = (name: string): Sent[] => [
  pipeline({ id: name }),
  pipeline({ use: name }),
  pipeline({ body: { ...edit, [name]: { $from: 'art' } } }),
  pipeline({ body: { ...edit, imageUrls: [{ $from: name }] } }),
  pipeline({ body: { ...edit, prompt: { $from: 'art', field: name } } }),
  pipeline({ body: { ...edit, imageUrls: [{ $from: 'art', [name]: 1 }] } }),
  picture({ [name]: 1 }),
  picture({ model: name }),
  picture({ aspectRatio: name.slice(0, 10) }),
  picture({ imageSize: name, model: 'alpha-image-2' }),
  picture({ metadata: { [name]: 'x' } }),
  { path: '/studio/voiceover/generate/estimate', body: { text: 'hi', title: 'x', voiceId: name } },
  bulk({ items: [{ ...art, id: name, body: { prompt: 'a lamp', [name]: 1 } }] }),
  bulk({ items: [{ use: name, body: {} }] }),
  bulk({ defaults: { body: { [name]: 1 } } }),
  bulk({ [name]: 1 }),
  chat({ model: name }),
  chat({ [name]: 1 }),
  chat({ tools: [{ type: 'function', function: { name, parameters: { [name]: {} } } }] }),
  { path: `/studio/jobs?${name}=1` },
  { path: `/studio/jobs?metadata[${name}]=1` },
  { path: `/studio/jobs?type=${name}` },
  { path: `/studio/jobs/${name}/resume`, body: { from: name, bodies: { [name]: {} } } },
  { path: '/api-keys', body: { name, scopes: [name] } },
];

it.each(names)('%s gets an answer, and no 500', async (name) => {
  const answers = await Promise.all(
    listRequests(name).map(async ({ path, ...sent }) => {
      const { status, body } = await gateway.call(`/api/v1${path}`, sent);
      return { path, sent, status, body };
    }),
  );
  expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
  const [asId, asUse] = answers;
  expect(asId?.status, JSON.stringify(asId?.body)).toBe(name.startsWith('_') ? 400 : 200);
  expect(asUse?.status).toBe(400);
});
