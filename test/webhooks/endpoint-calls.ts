/** Creates, changes and reads webhook endpoints, and reads the webhooks that their receivers get. */
import { expect } from 'vitest';
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts';
import type { TestCaller, TestGateway } from '../harness/gateway.ts';
import type { ReceivedWebhook } from '../harness/webhook-receiver.ts';

/** Path of webhook endpoints. */
export const path = '/api/v1/webhook-endpoints';

export type Created = { data: WebhookEndpoint & { secret: string; failingSince: string | null } };
interface Settings {
  url: string;
  events?: string[];
  paused?: boolean;
}

/** Returns functions that create, change and read endpoints and their deliveries. */
export function createEndpointCalls(gateway: TestGateway) {
  const at = (...args: Parameters<typeof gateway.receiver.at>) => gateway.receiver.at(...args);
  async function create({ key }: TestCaller, { url, events, paused = false }: Settings) {
    const body = { url, events: events ?? ['studio.job.completed', 'studio.job.failed'], paused };
    const created = await gateway.call<Created>(path, { key, body });
    expect(created).toMatchObject({ status: 200, body: { data: { url, paused } } });
    return created.body.data;
  }
  const change = (id: string, { key }: TestCaller, body: object) =>
    gateway.call<Created>(`${path}/${id}`, { method: 'PATCH', key, body });
  const read = async (id: string, { key }: TestCaller) =>
    (await gateway.call<Created>(`${path}/${id}`, { key })).body.data;
  const untilOne = async (route: string): Promise<ReceivedWebhook> => {
    const [hook, ...others] = await gateway.receiver.untilReceived(route);
    if (!hook || others.length > 0) throw new Error(`${others.length + 1} webhooks, not one`);
    return hook;
  };
  const listDeliveries = async ({ key }: TestCaller, query = '') =>
    (
      await gateway.call<{ data: { jobId: string; event: string; state: string; url: string }[] }>(
        `/api/v1/webhooks/deliveries${query}`,
        { key },
      )
    ).body.data;

  return { at, create, change, read, untilOne, listDeliveries };
}
