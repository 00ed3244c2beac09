import { createHash } from 'node:crypto';
import sharp from 'sharp';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterEach(() => gateway.expectSettled());
afterAll(() => gateway.close());

const path = '/api/v1/studio/image/generate';
const generate = (body: object, headers: Record<string, string> = {}) =>
  gateway.call(path, { body, headers });

describe('a synchronous image', () => {
  it('is answered with a picture that decodes, paid for exactly once', async () => {
    const before = await gateway.api.services.ledger.balance(gateway.caller.organizationId);
    const answer = await generate({ prompt: 'a lighthouse at dawn', aspectRatio: '16:9' });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      success: true,
      data: {
        model: 'nano-banana',
        images: [
          {
            url: expect.stringMatching(/^http/),
            contentType: 'image/png',
            width: 1360,
            height: 768,
          },
        ],
        metadata: { outputImages: 1, prompt: 'a lighthouse at dawn', aspectRatio: '16:9' },
      },
      credits: { used: 3.9, cost: 3.9, remaining: (before?.available ?? 0) / 1e6 - 3.9 },
    });
    const [image] = answer.body.data.images;
    const file = await fetch(image?.url ?? '');
    const bytes = Buffer.from(await file.arrayBuffer());
    expect(file.headers.get('content-type')).toBe('image/png');
    expect(await sharp(bytes).metadata()).toMatchObject({ width: 1360, height: 768 });
    const [stored] = await gateway.database.query<{ sha256: string }>(
      'SELECT sha256 FROM artifact ORDER BY created_at DESC LIMIT 1',
    );
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(stored?.sha256);
  });
});
