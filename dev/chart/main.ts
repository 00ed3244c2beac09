/**
 * `npm run dev -- check-chart`: checks the Helm chart in deploy/helm with its default values, with everything enabled, and
 * with each of its values files. It lints and renders the chart, validates the manifests against the schemas of Kubernetes,
 * KEDA, the Gateway API and the Prometheus operator, loads the configuration as a process does, and checks that every
 * documented setting is in the ConfigMap. Helm is built once from the Go module proxy; the schemas come from PyPI and the
 * module proxy.
 */
import { execFile } from 'node:child_process';
import { globSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { knownProviders } from '../../process/run-process.ts';
import { loadConfig } from '../../platform/config.ts';
import { documentedSettings } from '../compose/settings.ts';
import { findGo, findGoProgram, installPython } from '../stack/tools.ts';
import { loadSecrets } from '../stack/secrets.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';

const run = promisify(execFile);
const project = join(import.meta.dirname, '..', '..');
const chart = join(project, 'deploy', 'helm');
const helm = { path: 'helm.sh/helm/v4/cmd/helm', version: 'v4.3.1', program: 'helm' };
const validators = ['kubernetes-validate==1.37.0', 'jsonschema==4.25.1', 'pyyaml==6.0.3'];
/** Go modules with the schemas of custom resources. */
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
  {
    module: 'sigs.k8s.io/gateway-api@v1.3.0',
    files: 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml',
  },
];

const allFeatures = [
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
  'extraEnv[0].name=HOST_IP',
  'extraEnv[0].valueFrom.fieldRef.fieldPath=status.hostIP',
  'extraVolumes[0].name=ca',
  'extraVolumes[0].secret.secretName=ca',
  'extraVolumeMounts[0].name=ca',
  'extraVolumeMounts[0].mountPath=/ca',
  'podAnnotations.team=media',
  'serviceAccount.annotations.role=gateway',
  'nodeSelector.pool=general',
  'tolerations[0].key=dedicated',
  'tolerations[0].operator=Exists',
  'affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1',
  'affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=zone',
  'affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=Exists',
  'httpRoute.enabled=true',
  'httpRoute.parentRefs[0].name=public',
  'backup.enabled=true',
  'backup.claimName=backups',
  'monitoring.dashboard=true',
];
/** Values that the chart must reject, each with a part of the expected error message. */
const invalidValues: readonly [string, string][] = [
  ['publicBaseUrl=gateway.example.com', 'publicBaseUrl'],
  ['worker.replicas=0', 'replicas'],
  ['secretNames=null', 'secretNames'],
  ['api.replicaCount=3', 'replicaCount'],
  ['temporal.deploymentName=studio', 'buildId'],
  ['backup.enabled=true', 'claimName'],
];

const report = (line: string): void => void process.stdout.write(`${line}\n`);
const toSetFlags = (values: readonly string[]): string[] =>
  values.flatMap((value) => ['--set', value]);
/** Values files for particular clouds. */
const valuesFiles = ['values-temporal-cloud.yaml', 'values-aws-storage.yaml'];

async function render(executable: string, flags: readonly string[]): Promise<string> {
  const command = ['template', 'gateway', chart, '--namespace', 'studio', ...flags];
  return (await run(executable, command, { maxBuffer: 64 * 1024 * 1024 })).stdout;
}

async function findDefinitions(): Promise<string[]> {
  const go = await findGo(report);
  const found: string[] = [];
  for (const { module, files } of definitions) {
    // Downloaded one after the other, because Go locks its cache.
    const { stdout } = await run(go, ['mod', 'download', '-json', module]);
    const { Dir: directory } = z.object({ Dir: z.string() }).parse(JSON.parse(stdout));
    found.push(...globSync(join(directory, files)));
  }
  return found;
}

const configMap = z.object({
  kind: z.literal('ConfigMap'),
  metadata: z.object({ name: z.literal('gateway-gateway') }),
  data: z.record(z.string(), z.string()),
});

/** Checks that a process can load the chart's configuration and the Secret that values.yaml requires. */
function checkConfiguration(manifests: string, directory: string): void {
  const secrets = loadSecrets(directory);
  const secret = {
    DATABASE_URL: 'postgres://gateway:secret@postgres:5432/gateway',
    KEY_PEPPER: secrets.keyPepper,
    STORAGE_SECRET: secrets.storageSecret,
    WEBHOOK_SECRET: secrets.webhookSecret,
    WEBHOOK_SIGNING_SECRET: secrets.webhookSigningSecret,
    ADMIN_API_KEY: secrets.adminKey,
  };
  const s3Keys = { S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: secrets.sandboxKey };
  const documents = parseAllDocuments(manifests).map((document): unknown => document.toJS());
  const [map] = documents.flatMap((document) => configMap.safeParse(document).data ?? []);
  const isIssued = map?.data['S3_CREDENTIALS'] === 'aws';
  loadConfig(knownProviders, { ...map?.data, ...secret, ...(!isIssued && s3Keys) });
}

const deployment = z.object({
  kind: z.literal('Deployment'),
  spec: z.object({
    template: z.object({
      spec: z.object({
        containers: z.array(
          z.object({
            envFrom: z.array(z.object({ configMapRef: z.object({ name: z.string() }).optional() })),
          }),
        ),
      }),
    }),
  }),
});

/** Checks that every documented setting that is set in `config` is in the ConfigMap, and that all processes read it. */
async function checkSettings(executable: string, directory: string): Promise<void> {
  const settings = Object.fromEntries(documentedSettings().map((name) => [name, `set-${name}`]));
  const file = join(directory, 'settings.yaml');
  writeFileSync(file, JSON.stringify({ config: settings }));
  const manifests = await render(executable, ['--values', file]);
  const documents = parseAllDocuments(manifests).map((document): unknown => document.toJS());
  const [map] = documents.flatMap((document) => configMap.safeParse(document).data ?? []);
  const missing = Object.keys(settings).filter((name) => map?.data[name] !== settings[name]);
  if (missing.length > 0) throw new Error(`the ConfigMap lacks ${missing.join(', ')}`);
  const readers = documents.flatMap((document) => deployment.safeParse(document).data ?? []);
  const names = readers.flatMap(({ spec }) =>
    spec.template.spec.containers.flatMap(({ envFrom }) =>
      envFrom.flatMap(({ configMapRef }) => configMapRef?.name ?? []),
    ),
  );
  if (names.join() !== 'gateway-gateway,gateway-gateway') {
    throw new Error(`the processes read the ConfigMaps ${names.join()}`);
  }
  report(`${Object.keys(settings).length} settings reach ${readers.length} deployments`);
}

const podTemplate = z.looseObject({
  spec: z.looseObject({
    enableServiceLinks: z.boolean().optional(),
    containers: z.array(z.looseObject({ image: z.string() })),
  }),
});

/** Returns every pod template of the manifests, at whatever depth. */
function findPods(value: unknown): z.infer<typeof podTemplate>[] {
  if (typeof value !== 'object' || value === null) return [];
  const below = Object.values(value).flatMap(findPods);
  const found = podTemplate.safeParse(Object(value).template).data;
  return found ? [found, ...below] : below;
}

/** Checks that no Service of the namespace sets variables of a pod, and that a digest selects the image. */
async function checkPods(executable: string): Promise<void> {
  const digest = `sha256:${'0'.repeat(64)}`;
  const flags = toSetFlags([...allFeatures, `image.digest=${digest}`, 'image.tag=1.0.0']);
  const documents = parseAllDocuments(await render(executable, flags));
  const pods = documents.flatMap((document) => findPods(document.toJS()));
  const isRight = pods.every(
    ({ spec }) =>
      spec.enableServiceLinks === false &&
      spec.containers.every(
        ({ image }) => image.endsWith(`@${digest}`) || image.startsWith('postgres:'),
      ),
  );
  const map = documents.flatMap((document) => configMap.safeParse(document.toJS()).data ?? [])[0];
  if (pods.length !== 4 || !isRight || map?.data['METRICS_PORT'] !== '9464')
    throw new Error(`wrong pods: ${JSON.stringify(pods)}, ${JSON.stringify(map)}`);
  report(`${pods.length} pods have no service links; image.digest selects their image`);
}

/** Renders the chart with values in a file, and returns its manifests. */
async function renderValues(
  executable: string,
  { directory, values }: { directory: string; values: object },
): Promise<unknown[]> {
  const file = join(directory, 'own-values.yaml');
  writeFileSync(file, JSON.stringify(values));
  const manifests = await render(executable, ['--values', file, ...toSetFlags(allFeatures)]);
  return parseAllDocuments(manifests).map((document): unknown => document.toJS());
}

const securedPod = z.object({
  spec: z.object({
    securityContext: z.record(z.string(), z.unknown()),
    containers: z.array(z.object({ securityContext: z.record(z.string(), z.unknown()) })),
  }),
});

const kubernetesObject = z.object({
  kind: z.string(),
  metadata: z.object({ annotations: z.record(z.string(), z.string()).optional() }),
  spec: z.record(z.string(), z.unknown()).optional(),
});

const find = (documents: unknown[], kind: string) =>
  documents.map((document) => kubernetesObject.parse(document)).find((one) => one.kind === kind);

function expectEqual(found: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(found, expected)) throw new Error(`found ${JSON.stringify(found)}`);
}

/**
 * Checks the values of clusters with rules of their own: null removes a part of a security context
 * from all pods, a mounted Secret changes the pods of processes, the Job of the migrations can be
 * ordered, given time and turned off, and the Service has IP families.
 */
async function checkClusterValues(executable: string, directory: string): Promise<void> {
  const renderWith = (values: object) => renderValues(executable, { directory, values });
  const openShift = await renderWith({
    podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null },
    securityContext: { readOnlyRootFilesystem: null, privileged: false },
    api: { ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv6', 'IPv4'] },
    migrations: {
      annotations: { 'helm.sh/hook': null, 'argocd.argoproj.io/hook': 'PreSync' },
      activeDeadlineSeconds: 7200,
    },
  });
  const pods = openShift.flatMap(findPods).map((pod) => securedPod.parse(pod));
  expectEqual(pods.length, 4);
  for (const { spec } of pods) {
    expectEqual(spec.securityContext, {
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    for (const { securityContext } of spec.containers) {
      expectEqual(securityContext, {
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        privileged: false,
      });
    }
  }
  expectEqual(find(openShift, 'Job')?.metadata.annotations, {
    'helm.sh/hook-weight': '0',
    'helm.sh/hook-delete-policy': 'before-hook-creation',
    'argocd.argoproj.io/hook': 'PreSync',
  });
  expectEqual(find(openShift, 'Job')?.spec?.['activeDeadlineSeconds'], 7200);
  expectEqual(find(openShift, 'Service')?.spec?.['ipFamilyPolicy'], 'PreferDualStack');
  expectEqual(find(openShift, 'Service')?.spec?.['ipFamilies'], ['IPv6', 'IPv4']);
  const withoutJob = await renderWith({ migrations: { enabled: false } });
  expectEqual(find(withoutJob, 'Job'), undefined);
  const hashes = [
    { extraVolumes: [{ name: 'one', secret: { secretName: 'one' } }] },
    { extraVolumes: [{ name: 'two', secret: { secretName: 'two' } }] },
    { extraVolumes: [{ name: 'two', projected: { sources: [{ secret: { name: 'three' } }] } }] },
  ].map(async (values, index) => {
    const file = join(directory, `mounted-${index}.yaml`);
    writeFileSync(file, JSON.stringify(values));
    const manifests = await render(executable, ['--values', file]);
    return /checksum\/secrets: (\w+)/.exec(manifests)?.[1];
  });
  expectEqual(new Set(await Promise.all(hashes)).size, hashes.length);
  report(
    'security contexts merge, and the Job of the migrations has an order, a time and a switch',
  );
}

async function check(directory: string): Promise<void> {
  const executable = await findGoProgram(helm, report);
  const python = join(await installPython('chart', validators), 'python');
  const schemas = await findDefinitions();
  const validate = join(import.meta.dirname, 'validate.py');
  for (const [name, flags] of [
    ['its own values', []],
    ['everything enabled', toSetFlags(allFeatures)],
    ...valuesFiles.map((file) => [file, ['--values', join(chart, file)]] as const),
  ] as const) {
    report(`${name}: lint, render, validate, load`);
    await run(executable, ['lint', '--strict', chart, ...flags]);
    const manifests = await render(executable, flags);
    const file = join(directory, 'manifests.yaml');
    writeFileSync(file, manifests);
    const { stdout } = await run(python, [validate, file, ...schemas]);
    process.stdout.write(stdout);
    checkConfiguration(manifests, directory);
  }
  for (const [values, word] of invalidValues) {
    const message = await render(executable, toSetFlags([values])).then(
      () => '',
      ({ stderr }: { stderr: string }) => stderr,
    );
    if (!message.includes(word)) throw new Error(`--set ${values} is not rejected: ${message}`);
  }
  report(`${invalidValues.length} invalid values are rejected`);
  await checkSettings(executable, directory);
  await checkPods(executable);
  await checkClusterValues(executable, directory);
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
