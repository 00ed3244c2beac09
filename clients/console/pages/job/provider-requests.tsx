/** The provider's request id for each call of a job. */
import { CopyId } from '../../parts/ids.tsx';

interface ProviderRequestsProps {
  calls: readonly { provider: string | null; providerRequestId: string | null }[];
}

/** Shows one line for each call, with the provider and its request id. */
export function ProviderRequests({ calls }: ProviderRequestsProps) {
  return calls.map(({ provider, providerRequestId }, index) => (
    <div key={index}>
      {provider} {providerRequestId ? <CopyId id={providerRequestId} /> : 'no request id'}
    </div>
  ));
}
