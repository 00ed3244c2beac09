/** Runs the sweeper in the process of the test, when the test needs a pass. */
import { createRelays } from '../../process/services.ts';
import type { Config } from '../../platform/config.ts';
import { createActionRuns } from '../../studio/jobs/action-runs.ts';
import { createBulkWorkflows } from '../../bulk/bulk-execution.ts';
import { sweep } from '../../worker/sweeper.ts';
import type { TestGateway } from './gateway.ts';

/** Runs one pass over the database of a gateway, with its settings or other ones. */
export function sweepOnce(
  { api: { services, client }, config: own }: TestGateway,
  settings: Partial<Config> = {},
) {
  const config = { ...own, ...settings };
  const { webhookRelay } = createRelays(services, client, config);
  const { pool, logger } = services;
  const bulkWorkflows = createBulkWorkflows({ pool, client, config, logger });
  const actionRuns = createActionRuns({ pool, client, config, logger });
  const prepareServer = () => Promise.resolve();
  return sweep({
    config,
    services,
    client,
    webhookRelay,
    bulkWorkflows,
    actionRuns,
    prepareServer,
    workflowBuild: 'test',
  });
}
