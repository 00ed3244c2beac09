/** Storing a result, as a span: the way from a provider's bytes to a kept object. */
import type { Tracing } from '../../platform/tracing.ts';
import type { ArtifactStore } from './artifacts.ts';

/** Traces the store. */
export function observeArtifacts(artifacts: ArtifactStore, tracing: Tracing | null): ArtifactStore {
  if (!tracing) return artifacts;
  return {
    ...artifacts,
    store: (output, options) =>
      tracing.inSpan({ name: 'storage.store', kind: 'client' }, async (span) => {
        const stored = await artifacts.store(output, options);
        span.set({ 'artifact.type': stored.contentType, 'artifact.bytes': stored.sizeBytes });
        return stored;
      }),
  };
}
