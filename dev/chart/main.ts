/**
 * `npm run dev -- check-chart`: lints and renders deploy/helm with its own values and with everything switched on, validates what comes out
 * against the schemas of Kubernetes, KEDA and the Prometheus operator, and starts from the configuration. Helm is built
 * from the Go module proxy, once; the schemas come from PyPI and the module proxy.
 */
import { execFile } from 'node:child_process';
import { globSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { knownProviders } from '../../providers/registry.ts';
import { loadConfig } from '../../platform/config.ts';
import { findGo, findGoProgram, installPython } from '../stack/tools.ts';
import { loadSecrets } from '../stack/secrets.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';

const run = promisify(execFile);
const project = join(import.meta.dirname, '..', '..');
const chart = join(project, 'deploy', 'helm');
const helm = { path: 'helm.sh/helm/v4/cmd/helm', version: 'v4.3.1', program: 'helm' };
const validators = ['kubernetes-validate==1.37.0', 'jsonschema==4.25.1', 'pyyaml==6.0.3'];
/** Go modules with the definitions of resources that Kubernetes itself does not define. */
const definitions = [
  {
    module: 'github.com/kedacore/keda/v2@v2.18.1',
    files: 'config/crd/bases/keda.sh_scaledobjects.yaml',
  },
  {
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    files:
      'example/prometheus-operator-crd/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml',
  },
];

const everything = [
  'ingress.enabled=true',
  'ingress.className=nginx',
  'ingress.tlsSecretName=gateway-tls',
  'worker.autoscaling.enabled=true',
  'monitoring.serviceMonitor=true',
  'monitoring.prometheusRule=true',
  'monitoring.labels.release=prometheus',
  'temporal.deploymentName=studio',
  'temporal.buildId=1.0.0',
  'imagePullSecrets[0].name=registry',
  'secretNames={gateway,providers}',
];
/** Values that the chart must reject, each with a part of the error message. */
const refused: readonly [string, string][] = [
  ['publicBaseUrl=gateway.example.com', 'publicBaseUrl'],
  ['worker.replicas=0', 'replicas'],
  ['secretNames=null', 'secretNames'],
  ['api.replicaCount=3', 'replicaCount'],
  ['temporal.deploymentName=studio', 'buildId'],
];

const report = (line: string): void => void process.stdout.write(`${line}\n`);
const sets = (values: readonly string[]): string[] => values.flatMap((one) => ['--set', one]);

async function render(executable: string, values: readonly string[]): Promise<string> {
  const command = ['template', 'gateway', chart, '--namespace', 'studio', ...sets(values)];
  return (await run(executable, command, { maxBuffer: 64 * 1024 * 1024 })).stdout;
}

async function findDefinitions(): Promise<string[]> {
  const go = await findGo(report);
  const found: string[] = [];
  for (const { module, files } of definitions) {
    // One after the other, because Go locks its cache.
    const { stdout } = await run(go, ['mod', 'download', '-json', module]);
    const { Dir: directory } = z.object({ Dir: z.string() }).parse(JSON.parse(stdout));
    found.push(...globSync(join(directory, files)));
  }
  return found;
}

const configMap = z.object({
  kind: z.literal('ConfigMap'),
  data: z.record(z.string(), z.string()),
});

/**
 * Checks that a process starts with the chart's configuration and the Secret that values.yaml
 * requires.
 */
function checkConfiguration(manifests: string, directory: string): void {
  const secrets = loadSecrets(directory);
  const secret = {
    DATABASE_URL: 'postgres://gateway:secret@postgres:5432/gateway',
    KEY_PEPPER: secrets.keyPepper,
    STORAGE_SECRET: secrets.storageSecret,
    WEBHOOK_SECRET: secrets.webhookSecret,
    WEBHOOK_SIGNING_SECRET: secrets.webhookSigningSecret,
    ADMIN_API_KEY: secrets.adminKey,
    S3_ACCESS_KEY_ID: 'id',
    S3_SECRET_ACCESS_KEY: secrets.sandboxKey,
    FAL_KEY: secrets.sandboxKey,
    ELEVENLABS_API_KEY: secrets.sandboxKey,
  };
  const documents = parseAllDocuments(manifests).map((one): unknown => one.toJS());
  const [map] = documents.flatMap((one) => configMap.safeParse(one).data ?? []);
  loadConfig(knownProviders, { ...map?.data, ...secret });
}

async function check(directory: string): Promise<void> {
  const executable = await findGoProgram(helm, report);
  const python = join(await installPython('chart', validators), 'python');
  const schemas = await findDefinitions();
  const validate = join(import.meta.dirname, 'validate.py');
  for (const [name, values] of [
    ['its own values', []],
    ['everything on', everything],
  ] as const) {
    report(`${name}: lint, render, validate, load`);
    await run(executable, ['lint', '--strict', chart, ...sets(values)]);
    const manifests = await render(executable, values);
    const file = join(directory, 'manifests.yaml');
    writeFileSync(file, manifests);
    const { stdout } = await run(python, [validate, file, ...schemas]);
    process.stdout.write(stdout);
    checkConfiguration(manifests, directory);
  }
  for (const [values, word] of refused) {
    const told = await render(executable, [values]).then(
      () => '',
      ({ stderr }: { stderr: string }) => stderr,
    );
    if (!told.includes(word)) throw new Error(`--set ${values} is not refused: ${told}`);
  }
  report(`${refused.length} wrong values are refused`);
}

const directory = makeTemporaryDirectory('chart');
try {
  await check(directory);
} catch (error) {
  const stdout = error instanceof Error && 'stdout' in error ? String(error.stdout) : '';
  console.error(`${stdout}${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await rm(directory, { recursive: true, force: true });
}
