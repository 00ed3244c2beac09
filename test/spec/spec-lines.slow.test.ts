/**
 * The specification (test/spec/specification.md), line by line: a row for each statement, field,
 * limit, code and header of §4, §5, §7 and §8, with real requests to a gateway with the default
 * limits. Each figure and each term of those sections has a row.
 */
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc, makeFilm } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { accountLines } from './account-lines.ts';
import type { Bench, SpecLine } from './bench.ts';
import { chatLines } from './chat-lines.ts';
import { imageLines } from './image-lines.ts';
import { authenticationLines, brokenLines, errorLines, limitLines } from './rule-lines.ts';
import { filmLines, musicLines, voiceLines } from './sound-and-film-lines.ts';

const lines: SpecLine[] = [
  ...chatLines,
  ...accountLines,
  ...imageLines,
  ...voiceLines,
  ...musicLines,
  ...filmLines,
  ...authenticationLines,
  ...errorLines,
  ...limitLines,
];

const gateway = useGateway({
  credits: 100_000,
  settled: 'last',
  env: { RATE_LIMIT_PER_MINUTE: '60' },
});
let bench: Bench;
/** Lines run in parallel, because each waits for servers most of its time. */
const outcomes = new Map<SpecLine, Promise<void>>();
const linesAtOnce = 8;

beforeAll(async () => {
  const speech = await recordTone(4);
  bench = {
    gateway,
    picture: gateway.media.put('/disc.png', await drawDisc(64, 48)),
    film: gateway.media.put('/film.mp4', await makeFilm({ durationSeconds: 1 })),
    speech,
    speechUrl: gateway.media.put('/speech.mp3', Buffer.from(speech)),
  };
  runAll();
});

function runAll(): void {
  const waiting = lines.map((one) => ({ one, ...Promise.withResolvers<void>() }));
  for (const { one, promise } of waiting) {
    outcomes.set(one, promise);
    // The test of the line reports the failure.
    promise.catch(() => {});
  }
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      await run(next.one).then(next.resolve, next.reject);
    }
  };
  for (let lane = 0; lane < linesAtOnce; lane += 1) void work();
}

async function run({ checks }: SpecLine): Promise<void> {
  for (const check of checks) await check(bench);
}

describe.each(Object.entries(Object.groupBy(lines, ({ section }) => section)))(
  'section %s',
  (_section, ofSection = []) => {
    it.each(ofSection.map((one) => [one.quotes.join(' … '), one] as const))(
      '%s',
      async (_quote, one) => outcomes.get(one),
    );
  },
);

describe('after all lines', () => {
  it('no reservation is open', async () => {
    await Promise.allSettled(outcomes.values());
    await gateway.expectSettled();
  });

  it('section 7: an error inside the gateway is a 500 that does not show its cause', async () => {
    await gateway.database.query('ALTER TABLE api_key RENAME TO api_key_away');
    try {
      for (const one of brokenLines) await run(one);
    } finally {
      await gateway.database.query('ALTER TABLE api_key_away RENAME TO api_key');
    }
  });
});

describe('the table', () => {
  it('quotes the specification, and covers each of its figures and terms', async () => {
    const text = await readFile(new URL('specification.md', import.meta.url), 'utf8');
    const sections = splitSections(text);
    const rows = [...lines, ...brokenLines];
    for (const { section, quotes } of rows) {
      for (const quote of quotes) expect(sections.get(section), quote).toContain(quote);
    }
    const uncovered = [...sections].flatMap(([section, content]) => {
      const quotes = rows.filter((row) => row.section === section).flatMap((row) => row.quotes);
      return content.split('\n').flatMap((one) => findUncovered(one, quotes));
    });
    expect(uncovered).toEqual([]);
  });
});

/** Returns the texts of the sections that have rows. */
function splitSections(text: string): Map<string, string> {
  const parts = text.split(/^#{2,3} (?=\d)/m).slice(1);
  const numbered = parts.map((part) => {
    const [number = ''] = /^[\d.]+/.exec(part) ?? [];
    return [number.replace(/\.$/, ''), part.slice(part.indexOf('\n') + 1)] as const;
  });
  return new Map(numbered.filter(([number]) => /^[4578](\.|$)/.test(number)));
}

/** Returns the rest of a line without its quotes, if it contains a figure or a term. */
function findUncovered(text: string, quotes: string[]): string[] {
  const isTable = /^\|(-+\||[\w -]+\|)*$/.test(text) && !/\d/.test(text);
  const known = quotes.filter((quote) => text.includes(quote));
  const rest = known
    .toSorted((one, other) => other.length - one.length)
    .reduce((left, quote) => left.replace(quote, ''), text)
    // Numbers of list items, and what the specification leaves open.
    .replaceAll(/^\d\. /g, '')
    .replaceAll(/[^.|]*not (shown|stated)[^.|]*/g, '');
  const says = /`|\d/.test(rest) || (known.length === 0 && /\w/.test(rest));
  return says && !isTable ? [rest] : [];
}
