/** Jobs of videos on a gateway. */
import { expect } from 'vitest';
import type { TestGateway } from '../harness/gateway.ts';

interface VideoJob {
  jobId: string;
  result: { url: string; durationSeconds: number };
}

/** Returns functions that send a request to a video endpoint, and that also wait for the end of its job. */
export function createVideoCalls(gateway: TestGateway) {
  const video = (tool: string, body: object) =>
    gateway.call(`/api/v1/studio/video/${tool}`, { body });
  return {
    video,
    make: async (tool: string, body: object): Promise<VideoJob> => {
      const ticket = await video(tool, body);
      expect(ticket.status).toBe(202);
      expect(ticket.body.credits.used).toBe(0);
      expect(ticket.headers.get('location')).toBe(ticket.body.data.statusUrl);
      const done = await gateway.untilDone(ticket.body.data.jobId);
      return done.body.data as unknown as VideoJob;
    },
  };
}
