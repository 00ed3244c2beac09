/** The variables that the configuration's code names. */
import { providerDefinitions } from '../../providers/provider-registry.ts';
import { knownProviders } from '../../process/run-process.ts';
import { gatewayVariables } from '../../platform/config-variables.ts';

/** Names of all variables: the gateway's own and those of the providers. */
export const variablesInCode: readonly string[] = [
  ...Object.keys(gatewayVariables),
  'CHAT_UPSTREAMS',
  ...Object.keys(knownProviders.variables),
];

/** Variables that point all providers at a sandbox. */
export function sandboxedProviders(sandboxUrl: string): Record<string, string> {
  return Object.assign(
    {},
    ...[...providerDefinitions.values()].map(({ sandbox }) => sandbox?.(sandboxUrl)),
  );
}
