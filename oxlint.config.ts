import { defineConfig, type OxlintOverride } from 'oxlint';

/**
 * The import graph of the project. This table is the architecture: a folder may import values from
 * `value`, types from `type`, and nothing else (`npm run dev -- draw` draws it in docs/architecture.md).
 */
interface Edge {
  value: string[];
  type?: string[];
  /** Folders beside a folder within another one, from which it may not import. */
  beside?: string[];
}
/** Folders with one subject each, which the products use. */
const subjects = ['storage', 'webhooks', 'providers', 'ledger'];
/** The two products, what executes their work, and what makes many requests of both. */
const products = ['executions', 'studio', 'chat', 'bulk'];
export const graph: Readonly<Record<string, Edge>> = {
  domain: { value: [] },
  platform: { value: ['domain'] },
  storage: { value: ['domain', 'platform'] },
  webhooks: { value: ['domain', 'platform'] },
  providers: { value: ['domain', 'platform', 'storage'] },
  ledger: { value: ['domain', 'platform', 'storage'] },
  identity: { value: ['domain', 'platform', 'ledger'] },
  // The list of requests: rejected ones, and the chats of the ledger's rows.
  'request-log': { value: ['domain', 'platform'] },
  chat: { value: ['domain', 'platform', ...subjects, 'identity'] },
  // One mechanism for all kinds of executions, which knows none of them.
  executions: { value: ['domain', 'platform'] },
  studio: { value: ['domain', 'platform', ...subjects, 'identity', 'executions'] },
  // Stands above both products, which do not know each other.
  bulk: {
    value: ['domain', 'platform', ...subjects, 'identity', 'executions', 'chat', 'studio'],
  },
  process: {
    value: ['domain', 'platform', ...subjects, 'identity', ...products, 'request-log'],
  },
  activities: { value: ['domain', 'platform', ...subjects, ...products, 'process'] },
  workflows: { value: ['domain'], type: ['activities', 'providers'] },
  api: {
    value: [
      'domain',
      'platform',
      ...subjects,
      'identity',
      ...products,
      'request-log',
      'process',
      'activities',
    ],
  },
  worker: {
    value: ['domain', 'platform', ...subjects, ...products, 'process', 'activities', 'workflows'],
  },
  // Programs and packages that know the public API only.
  clients: { value: [] },
  dev: {
    value: [
      'domain',
      'platform',
      ...subjects,
      'identity',
      ...products,
      'process',
      'activities',
      'workflows',
      'api',
      'worker',
    ],
  },
  // A provider of its own: what it shared with the gateway, no test could find wrong.
  'dev/sandbox': { value: ['domain'], beside: ['stack', 'bench'] },
};
/** Composition roots, free to import what they wire together. */
const entryPoints = ['api/main.ts', 'worker/main.ts'];

const folders = Object.keys(graph);

function boundary(folder: string): OxlintOverride {
  const { value, type = [], beside = [] } = graph[folder] ?? { value: [] };
  const open = [folder, ...value, ...type];
  const closed = [...folders, 'test', ...beside].filter(
    (other) => !open.some((name) => other === name || other.startsWith(`${name}/`)),
  );
  const inner = folders.filter((other) => other.startsWith(`${folder}/`) && !value.includes(other));
  const patterns = [
    ...inner.map((other) => ({
      group: [`./${other.slice(folder.length + 1)}/**`],
      message: `${folder}/ may not import ${other}/`,
    })),
    {
      regex: `^(\\.\\./)+(${closed.join('|')})/`,
      message: `${folder}/ may not import this folder: see the graph in oxlint.config.ts`,
    },
    ...type.map((other) => ({
      group: [`**/${other}/**`],
      allowTypeImports: true,
      message: `${folder}/ may import ${other}/ as types only`,
    })),
    ...(folder === 'workflows' ? [{ regex: '^node:', message: 'workflow code is sandboxed' }] : []),
  ];
  return {
    files: [`${folder}/**`],
    excludeFiles: entryPoints,
    rules: { 'no-restricted-imports': ['error', { patterns }] },
  };
}

export default defineConfig({
  plugins: ['typescript', 'import', 'unicorn', 'promise', 'node'],
  categories: { correctness: 'error', suspicious: 'error' },
  options: { typeAware: true, reportUnusedDisableDirectives: 'error' },
  ignorePatterns: [
    'node_modules',
    '.data',
    '.cache',
    'test/histories',
    'clients/typescript/schema.ts',
    'clients/console/gateway/admin-schema.ts',
    'clients/console/dist',
  ],
  rules: {
    'import/no-cycle': 'error',
    'import/no-named-as-default': 'off',
    'max-lines': ['error', { max: 450 }],
    'max-lines-per-function': ['error', { max: 70 }],
    'max-params': ['error', { max: 3 }],
    'typescript/consistent-type-imports': 'error',
    'typescript/no-explicit-any': 'error',
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    'typescript/no-non-null-assertion': 'error',
    'typescript/switch-exhaustiveness-check': 'error',
    'unicorn/filename-case': ['error', { case: 'kebabCase' }],
  },
  overrides: [
    ...folders.map(boundary),
    {
      files: ['clients/console/**/*.tsx'],
      plugins: ['react', 'jsx-a11y'],
      rules: {
        // The runtime of JSX is imported by the compiler, and nothing is memoized by another.
        'react/react-in-jsx-scope': 'off',
        'react/incompatible-library': 'off',
        // A status or a group is no form's output and no fieldset.
        'jsx-a11y/prefer-tag-over-role': 'off',
        'import/no-unassigned-import': ['error', { allow: ['**/*.css'] }],
      },
    },
    {
      files: ['workflows/**'],
      rules: { 'no-restricted-globals': ['error', 'process', 'Buffer', 'fetch', 'console'] },
    },
    {
      files: ['test/**'],
      rules: {
        'max-lines': 'off',
        'max-lines-per-function': 'off',
        // A test reads what it expects; a wrong shape fails its expectation.
        'typescript/no-unsafe-type-assertion': 'off',
        'typescript/require-array-sort-compare': 'off',
        // Tables of cases and small local words make a test readable.
        'max-params': 'off',
        'unicorn/consistent-function-scoping': 'off',
      },
    },
  ],
});
