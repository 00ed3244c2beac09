/** Release dates of chat models, from the first source that knows one (README.md). */
import { packages, type ChatSources } from './chat-sources.ts';

/** Names of a provider in the sources with release dates. */
interface ReleaseNames {
  piAi: string;
  modelsDev: string;
  modelPrices: string;
}

/** Makes a function that returns the release of a model, in seconds since 1970. */
export function releaseDates(
  sources: ChatSources,
): (names: ReleaseNames, upstreamModel: string) => number {
  const anywhere = earliestAnywhere(sources);
  return (names, upstreamModel) => {
    const known =
      monthInId(names.piAi, upstreamModel) ??
      sources.modelsDev[names.modelsDev]?.models[upstreamModel]?.release_date ??
      firstPriced(sources, names.modelPrices, upstreamModel) ??
      anywhere.get(plain(upstreamModel)) ??
      // No source has the date: the model was released no later than the package that lists it.
      packages.piAi.publishedOn;
    return secondsOf(known);
  };
}

/** Returns the month in an id of Mistral, which ends in year and month. */
function monthInId(provider: string, id: string): string | undefined {
  const [, year, month] = /-(2[3-9])(0[1-9]|1[0-2])$/.exec(id) ?? [];
  return provider === 'mistral' && year && month ? `20${year}-${month}` : undefined;
}

function firstPriced(sources: ChatSources, provider: string, id: string): string | undefined {
  const dates = (sources.prices[provider]?.[id]?.standard ?? [])
    .flatMap((entry) => (entry.rates ? [entry.rates.valid_from.slice(0, 10)] : []))
    .toSorted();
  return dates[0];
}

/**
 * Normalizes the id of an open model: providers list it under ids that differ in punctuation and
 * case.
 */
function earliestAnywhere(sources: ChatSources): Map<string, string> {
  const earliest = new Map<string, string>();
  const add = (id: string, date: string | undefined): void => {
    const known = earliest.get(plain(id));
    if (date !== undefined && (known === undefined || date < known)) earliest.set(plain(id), date);
  };
  for (const { models } of Object.values(sources.modelsDev)) {
    for (const [id, model] of Object.entries(models)) add(id, model.release_date);
  }
  for (const [provider, models] of Object.entries(sources.prices)) {
    for (const id of Object.keys(models)) add(id, firstPriced(sources, provider, id));
  }
  return earliest;
}

function plain(id: string): string {
  return (id.split('/').at(-1) ?? id).toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** `YYYY-MM` counts from its first day. */
function secondsOf(date: string): number {
  return Date.parse(date.length === 7 ? `${date}-01` : date) / 1000;
}
