import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../../dev/stack/free-port.ts';
import { commandLine, isAlive } from '../../../dev/stack/process-identity.ts';
import {
  executableSha256,
  findTemporalCli,
  temporalCliVersion,
} from '../../../dev/stack/temporal-cli.ts';
import { probeTemporal, startTemporal } from '../../../dev/stack/temporal.ts';
import { newFolder } from '../../harness/folders.ts';
import { startHttpServer } from '../../harness/http-server.ts';

/** Returns a PATH, with a `temporal` that prints this version. */
function pathWith(version: string | null): string {
  const directory = newFolder();
  const program = `#!/bin/sh\necho "temporal version ${version}"\n`;
  if (version !== null) writeFileSync(join(directory, 'temporal'), program, { mode: 0o755 });
  return directory;
}

/** Starts a replacement of Temporal's download site, whose CLI has this content. */
async function downloadSite(content: string): Promise<string> {
  const directory = newFolder();
  writeFileSync(join(directory, 'temporal'), content);
  execFileSync('tar', ['-czf', 'cli.tar.gz', 'temporal'], { cwd: directory });
  const { url, close } = await startHttpServer((request, response) => {
    if (request.url === '/cli.tar.gz') response.end(readFileSync(join(directory, 'cli.tar.gz')));
    else
      response.end(JSON.stringify({ archiveUrl: `${url}/cli.tar.gz`, fileToExtract: 'temporal' }));
  });
  onTestFinished(close);
  return url;
}

const nowhere = 'http://127.0.0.1:9';

describe('findTemporalCli', () => {
  it('uses the CLI on the PATH from version 1.9 on', async () => {
    const cacheDir = newFolder();
    for (const version of ['1.9.0', '1.12.3', '2.0.0']) {
      expect(await findTemporalCli({ path: pathWith(version), cacheDir })).toBe('temporal');
    }
  });

  const sha256 = createHash('sha256').update('binary').digest('hex');

  it('has a checksum for every supported platform, and the correct one for this platform', async () => {
    const platforms = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64'];
    expect(Object.keys(executableSha256).toSorted()).toEqual(platforms);
    const pins = Object.values(executableSha256);
    for (const pin of pins) expect(pin).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(pins).size).toBe(pins.length);
    const installed = await findTemporalCli({ path: process.env['PATH'] ?? '' });
    if (installed === 'temporal') return; // The one on the PATH.
    const found = createHash('sha256').update(readFileSync(installed)).digest('hex');
    expect(found).toBe(executableSha256[`${process.platform}-${process.arch}`]);
  });

  it('runs no download with another checksum, and deletes it', async () => {
    const cacheDir = newFolder();
    const options = { cacheDir, path: pathWith(null), downloadOrigin: await downloadSite('other') };
    await expect(findTemporalCli({ ...options, sha256 })).rejects.toThrow(
      new RegExp(`127.0.0.1:\\d+: the SHA-256 must be ${sha256}`),
    );
    await expect(findTemporalCli(options)).rejects.toThrow('the SHA-256 must be');
    const target = join(cacheDir, temporalCliVersion, 'temporal');
    expect(existsSync(target)).toBe(false);
    // A changed file in the cache is not used either.
    writeFileSync(target, 'planted');
    await expect(findTemporalCli({ ...options, sha256 })).rejects.toThrow('the SHA-256 must be');
    const good = { ...options, sha256, downloadOrigin: await downloadSite('binary') };
    expect(readFileSync(await findTemporalCli(good), 'utf8')).toBe('binary');
  });

  it('installs nothing without a checksum for the platform', async () => {
    const options = { cacheDir: newFolder(), path: pathWith(null), sha256: null };
    const downloadOrigin = await downloadSite('binary');
    await expect(findTemporalCli({ ...options, downloadOrigin })).rejects.toThrow(
      'cannot be installed automatically on this platform',
    );
  });

  it('prefers the cached CLI to an older one on the PATH', async () => {
    const cacheDir = newFolder();
    const options = { cacheDir, downloadOrigin: await downloadSite('binary'), sha256 };
    const installed = await findTemporalCli({ ...options, path: pathWith(null) });
    expect(installed).toBe(join(cacheDir, temporalCliVersion, 'temporal'));
    expect(readFileSync(installed, 'utf8')).toBe('binary');
    const again = { cacheDir, downloadOrigin: nowhere, path: pathWith('1.8.2'), sha256 };
    expect(await findTemporalCli(again)).toBe(installed);
  });

  it('lists its attempts and the solution, and leaves no partial installation', async () => {
    const cacheDir = newFolder();
    const lines: string[] = [];
    const report = (line: string) => lines.push(line);
    const path = pathWith(null);
    const attempt = findTemporalCli({ cacheDir, report, path, downloadOrigin: nowhere });
    await expect(attempt).rejects.toThrow(/pip: .*\n.*virtual environment: .*\n.*:9: .*\n.*PATH/);
    expect(lines).toHaveLength(3);
    expect(existsSync(join(cacheDir, temporalCliVersion, 'temporal'))).toBe(false);
  });
});

describe('startTemporal', () => {
  beforeAll(async () => {
    await findTemporalCli(); // May install it, outside a test's time limit.
  });

  it('serves its namespace, without the 50 ms task delay, and leaves nothing behind', async () => {
    const port = await freePort();
    const server = await startTemporal({ dataDir: null, port, uiPort: null, namespace: 'studio' });
    onTestFinished(() => server.stop());
    expect(server.address).toBe(`127.0.0.1:${port}`);
    await probeTemporal(server.address, 'studio');
    await expect(probeTemporal(server.address, 'elsewhere')).rejects.toThrow();
    expect(commandLine(server.pid)).toContain('history.transferProcessorMaxPollRPS=1000');
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
  });

  it('serves the web UI on request', async () => {
    const uiPort = await freePort();
    const server = await startTemporal({ dataDir: null, port: await freePort(), uiPort });
    onTestFinished(() => server.stop());
    expect((await fetch(server.uiUrl ?? '')).status).toBe(200);
  });
});
