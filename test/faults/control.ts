/**
 * A server to which the processes of a fault test report the points they reach, and where they
 * wait.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { startHttpServer } from '../harness/http-server.ts';
import type { Arrival, Point } from './points.ts';

/** Returns whether a job waits at the point that it has reached. */
type Waits = (arrival: Arrival) => Promise<boolean>;

/** Starts a control server on a free port. */
export async function startControl() {
  let armed: Point | null = null;
  let waits: Waits = async () => true;
  const arrived = new Map<string, Set<number | null>>();
  let held: ServerResponse[] = [];

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const arrival = JSON.parse(await text(request)) as Arrival;
    const { point, subject, call } = arrival;
    if (point !== armed || !(await waits(arrival)) || point !== armed) {
      response.end();
      return;
    }
    arrived.set(subject, (arrived.get(subject) ?? new Set()).add(call));
    held.push(response);
  }

  const { url, close } = await startHttpServer((request, response) => void take(request, response));
  return {
    url,
    /** Makes the jobs that reach this point wait there. */
    arm(point: Point, which: Waits): void {
      armed = point;
      waits = which;
      arrived.clear();
    },
    /** Returns the subjects that have reached the armed point, with the indexes of their calls. */
    arrived: (): ReadonlyMap<string, ReadonlySet<number | null>> => arrived,
    /** Lets all waiting jobs continue; no further job waits. */
    release(): void {
      armed = null;
      for (const response of held) response.end();
      held = [];
    },
    close,
  };
}
