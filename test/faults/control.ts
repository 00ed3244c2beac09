/**
 * A server to which the processes of a fault test report the points they reach, and where they
 * wait.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { startHttpServer } from '../harness/http-server.ts';
import type { Arrival, Point } from './points.ts';

/** Starts a control server on a free port. */
export async function startControl() {
  let armed: Point | null = null;
  const arrived = new Set<string>();
  let held: ServerResponse[] = [];

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { point, subject } = JSON.parse(await text(request)) as Arrival;
    if (point !== armed) {
      response.end();
      return;
    }
    arrived.add(subject);
    held.push(response);
  }

  const { url, close } = await startHttpServer((request, response) => void take(request, response));
  return {
    url,
    /** Makes every job that reaches this point wait. */
    arm(point: Point): void {
      armed = point;
      arrived.clear();
    },
    /** Returns the subjects that have reached the armed point. */
    arrived: (): ReadonlySet<string> => arrived,
    /** Lets all waiting jobs continue; no further job waits. */
    release(): void {
      armed = null;
      for (const response of held) response.end();
      held = [];
    },
    close,
  };
}
