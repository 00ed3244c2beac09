/** Requests for bulk jobs on a gateway. */
import { expect } from 'vitest';
import type { BulkResource, BulkResult } from '../../bulk/bulk-view.ts';
import type { TestGateway } from '../harness/gateway.ts';

/** Path of bulk jobs. */
export const path = '/api/v1/studio/bulk';

export interface Body<Data = BulkResource> {
  data: Data;
  error: string;
  message: string;
  details: { path: string; message: string }[];
  hasMore: boolean;
  nextCursor: string | null;
}

/** Makes an item that draws a picture. */
export const item = (prompt: string, fields: object = {}) => ({
  use: 'image/generate',
  body: { prompt },
  ...fields,
});
/** Returns functions that start, change and read bulk jobs. */
export function createBulkCalls(gateway: TestGateway) {
  const start = (body: object, options: { key?: string; headers?: Record<string, string> } = {}) =>
    gateway.call<Body>(path, { body, ...options });
  const post = (bulkId: string, command: string, body?: object, key?: string) =>
    gateway.call<Body>(`${path}/${bulkId}/${command}`, {
      method: 'POST',
      ...(body && { body }),
      ...(key !== undefined && { key }),
    });

  async function accept(body: object, key?: string): Promise<BulkResource> {
    const response = await start(body, key === undefined ? {} : { key });
    expect(response.status, JSON.stringify(response.body)).toBe(202);
    return response.body.data;
  }

  async function read(bulkId: string, key?: string): Promise<BulkResource> {
    return (await gateway.call<Body>(`${path}/${bulkId}`, key === undefined ? {} : { key })).body
      .data;
  }

  async function untilDone(bulkId: string, key?: string): Promise<BulkResource> {
    for (;;) {
      const options = key === undefined ? {} : { key };
      const { body } = await gateway.call<Body>(`${path}/${bulkId}?wait=20`, options);
      if (body.data.done) return body.data;
    }
  }

  async function readResults(bulkId: string, cursor = '0'): Promise<BulkResult[]> {
    const response = await fetch(`${gateway.url}${path}/${bulkId}/results?cursor=${cursor}`, {
      headers: { authorization: `Bearer ${gateway.caller.key}` },
    });
    const lines = (await response.text()).split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as BulkResult);
  }

  return { start, post, accept, read, untilDone, readResults };
}
