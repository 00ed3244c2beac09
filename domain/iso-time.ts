/** Times in answers. */

/** ISO 8601 of Unix ms; null stays null. */
export function isoTime(timeMs: number): string;
export function isoTime(timeMs: number | null): string | null;
export function isoTime(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}

/** A record with its times as they are answered: `seenAtMs` becomes `seenAt`. */
type IsoTimes<Row> = {
  [
    Name in keyof Row as Name extends `${infer Noun}AtMs` ? `${Noun}At` : Name
  ]: Name extends `${string}AtMs` ? string | Extract<Row[Name], null> : Row[Name];
};

/** Every `…AtMs` of a record (Unix ms or null) as `…At`, in ISO 8601. */
export function isoTimes<Row extends object>(row: Row): IsoTimes<Row> {
  const fields = Object.entries(row).map(([name, value]: [string, unknown]) =>
    name.endsWith('AtMs') && (typeof value === 'number' || value === null)
      ? [name.slice(0, -'Ms'.length), isoTime(value)]
      : [name, value],
  );
  // oxlint-disable-next-line no-unsafe-type-assertion -- `fromEntries` forgets which names it was given
  return Object.fromEntries(fields) as IsoTimes<Row>;
}
