/**
 * Requests reasoning in the form that a model knows: an effort, a switch or both. What a model does
 * not have is dropped, because agents request reasoning from every model, and named for the caller.
 */
import type { ChatModel } from '../models.ts';
import { efforts, type ChatBody, type Effort, type Reasoning } from '../chat-body.ts';
import { unsupportedField } from './protocol.ts';

/** Effort for each range of budgets, for models that accept only efforts. `below` is in tokens. */
const effortRanges = [
  { below: 4096, effort: 'low' },
  { below: 12_288, effort: 'medium' },
] as const;

/** Returns the requested effort, or the one that corresponds to the requested budget. */
export function findEffort({ effort, budgetTokens }: Reasoning): Reasoning['effort'] {
  if (effort !== undefined || budgetTokens === undefined) return effort;
  return effortRanges.find(({ below }) => budgetTokens < below)?.effort ?? 'high';
}

/** Returns whether a model cannot turn its reasoning off. */
function alwaysReasons({ thinking, efforts: known }: ChatModel): boolean {
  return thinking === 'always' || known?.includes('none') === false;
}

/**
 * Returns whether a request turns the reasoning of a model off.
 * @throws GatewayError UNSUPPORTED_PARAMETER if the model always reasons
 */
export function turnsOff(model: ChatModel, { mode, modeField }: Reasoning): boolean {
  if (mode !== 'off' && mode !== 'off if possible') return false;
  if (!alwaysReasons(model)) return true;
  if (mode === 'off if possible') return false;
  const [lowest = model.thinking && 'low'] = model.efforts ?? [];
  const advice = lowest ? `; its lowest effort is ${lowest}` : '';
  throw unsupportedField(modeField, `this model always reasons${advice}`);
}

/** Returns the efforts between which a request can choose; undefined if they are unknown. */
function listLevels({ efforts: known }: ChatModel): readonly Effort[] | undefined {
  return known?.filter((level) => level !== 'none');
}

/** Returns the nearest effort that a model has: the next higher one, else the highest. */
function fitEffort(model: ChatModel, effort: Effort): Effort | undefined {
  const levels = listLevels(model);
  if (!levels) return effort;
  const rank = efforts.indexOf(effort);
  return levels.find((level) => efforts.indexOf(level) >= rank) ?? levels.at(-1);
}

/**
 * Returns the fields that request reasoning from a model with OpenAI's protocol.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function toOpenaiReasoning(
  model: ChatModel,
  { reasoning }: ChatBody,
): Record<string, unknown> {
  if (!reasoning || !model.reasoning) return {};
  const { reasoningSwitch } = model;
  if (turnsOff(model, reasoning)) {
    return reasoningSwitch ? toSwitch(reasoningSwitch, false) : { reasoning_effort: 'none' };
  }
  const { mode } = reasoning;
  const turnsOn = mode === 'on' || (mode === 'adaptive' && !alwaysReasons(model));
  const effort = findEffort(reasoning) ?? (turnsOn && !reasoningSwitch ? 'medium' : undefined);
  const level = effort && fitEffort(model, effort);
  return {
    ...(reasoningSwitch && turnsOn && toSwitch(reasoningSwitch, true)),
    ...(level && { reasoning_effort: level }),
  };
}

function toSwitch(
  field: NonNullable<ChatModel['reasoningSwitch']>,
  isOn: boolean,
): Record<string, unknown> {
  return field === 'thinking'
    ? { thinking: { type: isOn ? 'enabled' : 'disabled' } }
    : { reasoning: { enabled: isOn } };
}

/**
 * Returns the names of the caller's fields that request reasoning which the model does not have.
 * Values that change nothing are not listed, such as an effort of `none` for a model that does not
 * reason.
 */
export function listIgnoredReasoning(model: ChatModel, { reasoning }: ChatBody): string[] {
  if (!reasoning) return [];
  const { mode, modeField, effortField } = reasoning;
  const asked = effortField === undefined ? [] : [effortField];
  if (!model.reasoning) {
    const isOn = mode === 'on' || reasoning.budgetTokens !== undefined;
    return [...new Set([...(isOn ? [modeField] : []), ...asked])];
  }
  if (mode === 'off if possible' && alwaysReasons(model)) return [modeField];
  const cannotChoose =
    model.protocol === 'anthropic'
      ? (model.thinking ?? 'budget') === 'budget'
      : listLevels(model)?.length === 0;
  const isEffortAlone = mode === 'default' || mode === 'off' || mode === 'off if possible';
  return isEffortAlone && cannotChoose ? asked : [];
}
