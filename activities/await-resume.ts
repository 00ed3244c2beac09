/** Activity `awaitResume`: waits until a paused provider is resumed. */
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { CallInput } from '../domain/job-plan.ts';
import { getCallIds, type ProviderCallDeps } from './attempt.ts';

/**
 * Returns without an error if the provider of at least one of the given routes is not paused.
 * @throws ApplicationFailure PROVIDER_PAUSED if the providers of all routes are paused; Temporal
 * then retries the activity
 */
export async function awaitResume(
  { records }: Pick<ProviderCallDeps, 'records'>,
  routes: CallInput[],
): Promise<void> {
  for (const task of routes) {
    const { routeIndex, route } = task;
    const { provider, providerEndpoint } = route;
    const record = {
      ...getCallIds(task),
      routeIndex,
      provider,
      providerEndpoint,
      wait: true,
    } as const;
    const { verdict } = await records.begin(record);
    if (verdict !== 'paused') return;
  }
  throw ApplicationFailure.create({
    message: `paused: ${routes.map(({ route }) => route.provider).join(', ')}`,
    type: 'PROVIDER_PAUSED',
    category: ApplicationFailureCategory.BENIGN,
  });
}
