/** The request ids of a job's calls at their providers. */
import { CopyId } from '../../parts/ids.tsx';

interface ProviderRequestsProps {
  calls: readonly { provider: string | null; providerRequestId: string | null }[];
}

/** Shows a line for each call. */
export function ProviderRequests({ calls }: ProviderRequestsProps) {
  return calls.map(({ provider, providerRequestId }, index) => (
    <div key={index}>
      {provider} {providerRequestId ? <CopyId id={providerRequestId} /> : 'no request id'}
    </div>
  ));
}
