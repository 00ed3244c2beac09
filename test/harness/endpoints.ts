/** The endpoints of the API as tests walk them, at paths that are well formed and name nothing. */
import { endpoints } from '../../api/endpoints/index.ts';
import type { Endpoint } from '../../api/endpoints/endpoint.ts';

const zeros = '0'.repeat(32);
const words: Record<string, string> = {
  jobId: `job_${zeros}`,
  keyId: `key_${zeros}`,
  organizationId: `org_${zeros}`,
  userId: `usr_${zeros}`,
  operatorId: `opr_${zeros}`,
  provider: 'nobody',
  sessionId: `ses_${zeros}`,
  id: 'nothing',
};

/** An endpoint at such a path. */
export interface Walked extends Endpoint {
  /** The path, ready to be asked. */
  asked: string;
  takesBody: boolean;
}

const walk = (endpoint: Endpoint): Walked => ({
  ...endpoint,
  asked: endpoint.path.replaceAll(/[:*](\w+)/g, (_, name: string) => words[name] ?? name),
  takesBody: Boolean(endpoint.request.body ?? endpoint.request.content),
});

/** What operators do. */
export const ofOperators = endpoints.filter(({ scope }) => scope === 'admin').map(walk);
/** What callers do, and needs no key. */
export const ofEverybody = endpoints
  .filter(({ scope, id }) => scope === 'open' && id !== undefined)
  .map(walk);
const behindKeys = endpoints.filter(({ scope }) => scope !== 'admin' && scope !== 'open');
/** What callers do, behind a key. */
export const ofCallers = behindKeys.filter(({ id }) => id !== undefined).map(walk);
/** The same in protocols of their own, which OpenAPI does not describe. */
export const ofProtocols = behindKeys.filter(({ id }) => id === undefined).map(walk);
