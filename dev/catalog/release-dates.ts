/** Finds the release dates of chat models. README.md lists the sources by priority. */
import { packages, type ChatSources } from './chat-sources.ts';

/** Names of a provider in the sources of release dates. */
interface ReleaseNames {
  piAi: string;
  modelsDev: string;
  modelPrices: string;
}

/** Returns a function that finds when a model was released, in seconds since 1970. */
export function createReleaseDateFinder(
  sources: ChatSources,
): (names: ReleaseNames, upstreamModel: string) => number {
  const anywhere = findEarliestDates(sources);
  return (names, upstreamModel) => {
    const known =
      parseMonth(names.piAi, upstreamModel) ??
      sources.modelsDev[names.modelsDev]?.models[upstreamModel]?.release_date ??
      findFirstPriceDate(sources, names.modelPrices, upstreamModel) ??
      anywhere.get(normalizeId(upstreamModel)) ??
      // No source has the date; but the model was released before the package that lists it.
      packages.piAi.publishedOn;
    return toSeconds(known);
  };
}

/** Parses year and month at the end of Mistral's model ids. */
function parseMonth(provider: string, id: string): string | undefined {
  const [, year, month] = /-(2[3-9])(0[1-9]|1[0-2])$/.exec(id) ?? [];
  return provider === 'mistral' && year && month ? `20${year}-${month}` : undefined;
}

function findFirstPriceDate(
  sources: ChatSources,
  provider: string,
  id: string,
): string | undefined {
  const dates = (sources.prices[provider]?.[id]?.standard ?? [])
    .flatMap((entry) => (entry.rates ? [entry.rates.valid_from.slice(0, 10)] : []))
    .toSorted();
  return dates[0];
}

/** Finds the earliest release date of each open model at any provider. Providers' ids differ in punctuation and case. */
function findEarliestDates(sources: ChatSources): Map<string, string> {
  const earliest = new Map<string, string>();
  const add = (id: string, date: string | undefined): void => {
    const known = earliest.get(normalizeId(id));
    if (date !== undefined && (known === undefined || date < known))
      earliest.set(normalizeId(id), date);
  };
  for (const { models } of Object.values(sources.modelsDev)) {
    for (const [id, model] of Object.entries(models)) add(id, model.release_date);
  }
  for (const [provider, models] of Object.entries(sources.prices)) {
    for (const id of Object.keys(models)) add(id, findFirstPriceDate(sources, provider, id));
  }
  return earliest;
}

function normalizeId(id: string): string {
  return (id.split('/').at(-1) ?? id).toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** Converts a date to seconds since 1970; `YYYY-MM` becomes the first day of the month. */
function toSeconds(date: string): number {
  return Date.parse(date.length === 7 ? `${date}-01` : date) / 1000;
}
