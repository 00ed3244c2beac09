/** Reads which fields each Studio model accepts, so that settings it ignores become warnings. */
import { NoSuchModelError, type SharedV4Warning } from '@ai-sdk/provider';
import type { Capability, StudioGateway } from 'studio-gateway-client';

/** Kind of a model in errors of the AI SDK. */
type ModelType = ConstructorParameters<typeof NoSuchModelError>[0]['modelType'];

/** Setting of the AI SDK: its value, and the field of the gateway. Null if there is no such field. */
export type Settings = Record<string, { value: unknown; field: string | null }>;

/** Request fields of the settings that a model accepts, and warnings for the others. */
interface TakenSettings {
  fields: Record<string, unknown>;
  warnings: SharedV4Warning[];
}

/** Model of a capability, as the SDK's caller names it. */
export interface NamedModel {
  capability: Capability;
  modelId: string;
  modelType: ModelType;
}

/** List of the gateway's models. */
export interface ModelList {
  /** @throws NoSuchModelError if the capability has no such model */
  takeSettings: (model: NamedModel, settings: Settings) => Promise<TakenSettings>;
}

/** Creates the list, which is read once. */
export function createModelList(client: StudioGateway): ModelList {
  async function read() {
    const { data } = await client.api.GET('/api/v1/studio/models');
    return data?.data ?? [];
  }
  let pending: ReturnType<typeof read> | null = null;

  async function findFields(model: NamedModel): Promise<ReadonlySet<string>> {
    const { capability, modelId, modelType } = model;
    pending ??= read();
    pending.catch(() => (pending = null));
    const endpoint = (await pending).find((one) => one.endpoint.endsWith(`/studio/${capability}`));
    const models = endpoint?.models ?? [];
    const found = models.find(({ id }) => id === modelId);
    if (found) return new Set(Object.keys(found.parameters));
    const known = models.map(({ id }) => id).join(', ');
    const message = `No such model: ${modelId}. ${capability} has ${known}.`;
    throw new NoSuchModelError({ modelId, modelType, message });
  }

  return {
    async takeSettings(model, settings) {
      const accepted = await findFields(model);
      const fields: Record<string, unknown> = {};
      const warnings: SharedV4Warning[] = [];
      for (const [feature, { value, field }] of Object.entries(settings)) {
        if (value === undefined) continue;
        if (field !== null && accepted.has(field)) fields[field] = value;
        else
          warnings.push({ type: 'unsupported', feature, details: `${model.modelId} ignores it` });
      }
      return { fields, warnings };
    },
  };
}
