import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { launch, type Running } from '../../../dev/stack/running.ts';
import { isAlive } from '../../../dev/stack/process-identity.ts';
import { Supervisor, type Service } from '../../../dev/stack/supervisor.ts';
import { until } from '../../harness/until.ts';

const forever = 'setInterval(() => {}, 1000)';

function service(name: string, options: { code?: string; order?: string[] } = {}): Service {
  const start = async (): Promise<Running> => {
    const args = ['-e', options.code ?? forever];
    const running = await launch({ command: process.execPath, args, logPath: null });
    const stop = async () => {
      options.order?.push(name);
      await running.stop();
    };
    return { ...running, stop };
  };
  return { name, start };
}

function supervise(restartMinMs = 20) {
  const lines: string[] = [];
  const supervisor = new Supervisor({ report: (line) => lines.push(line), restartMinMs });
  onTestFinished(() => supervisor.kill());
  return { supervisor, lines };
}

describe('the supervisor', () => {
  it('doubles the delay while a process keeps ending', async () => {
    const { supervisor, lines } = supervise();
    await supervisor.start(service('api', { code: 'process.exit(3)' }));
    const waits = () => lines.filter((line) => line.includes('restarting')).slice(0, 3);
    await until(() => waits().length === 3);
    await supervisor.stop();
    expect(waits()).toEqual([
      'api exited with code 3; restarting in 0.02 s',
      'api exited with code 3; restarting in 0.04 s',
      'api exited with code 3; restarting in 0.08 s',
    ]);
  });

  it('stops the last stage first and leaves nothing running', async () => {
    const { supervisor } = supervise();
    const order: string[] = [];
    await supervisor.start(service('postgres', { order }));
    await supervisor.start(service('api', { order }));
    const pids = Object.values(supervisor.processes);
    await supervisor.stop();
    expect(order).toEqual(['api', 'postgres']);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it('does not restart a process that ends during the stop', async () => {
    const { supervisor, lines } = supervise();
    await supervisor.start(service('api'));
    const pid = supervisor.processes['api'] ?? 0;
    const stopped = supervisor.stop();
    process.kill(pid, 'SIGKILL');
    await stopped;
    await sleep(60);
    expect(lines).toEqual([]);
    expect(supervisor.processes).toEqual({});
  });

  it('cancels a delayed restart when it is stopped', async () => {
    const { supervisor, lines } = supervise(60_000);
    await supervisor.start(service('api', { code: 'process.exit(3)' }));
    await until(() => lines.length > 0);
    await supervisor.stop();
    expect(supervisor.processes).toEqual({});
  });

  it('rejects with the error of a service, and can still stop the others', async () => {
    const { supervisor } = supervise();
    const broken = { name: 'api', start: () => Promise.reject(new Error('no port')) };
    await expect(supervisor.start(service('postgres'), broken)).rejects.toThrow('no port');
    const pids = Object.values(supervisor.processes);
    expect(pids).toHaveLength(1);
    await supervisor.stop();
    expect(pids.filter(isAlive)).toEqual([]);
  });
});

it('stop sends SIGKILL if a process ignores SIGTERM', async () => {
  const ready = new EventTarget();
  const running = await launch({
    command: process.execPath,
    args: ['-e', `process.on('SIGTERM', () => {}); process.send('on'); ${forever}`],
    logPath: null,
    stopGraceMs: 100,
    onMessage: () => ready.dispatchEvent(new Event('ready')),
  });
  await once(ready, 'ready');
  await running.stop();
  expect(await running.exited).toEqual({ code: null, signal: 'SIGKILL' });
});
