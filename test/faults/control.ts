/**
 * A server to which the processes of a fault test report the points they reach, and where they
 * wait.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Arrival, Point } from './points.ts';

/** The control server of one stack. */
export interface Control {
  url: string;
  /** Makes every job that reaches this point wait. */
  arm: (point: Point) => void;
  /** Returns the subjects that have reached the armed point. */
  arrived: () => ReadonlySet<string>;
  /** Lets all waiting jobs continue; no further job waits. */
  release: () => void;
  close: () => void;
}

/** Starts a control server on a free port. */
export async function startControl(): Promise<Control> {
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

  const server = createServer((request, response) => void take(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arm(point) {
      armed = point;
      arrived.clear();
    },
    arrived: () => arrived,
    release() {
      armed = null;
      for (const response of held) response.end();
      held = [];
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
