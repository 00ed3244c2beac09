import { afterAll, beforeAll } from 'vitest';

/** Something that is there during the tests of a file: filled in before the first, closed after the last. */
export function during<Thing extends { close: () => unknown }>(start: () => Promise<Thing>): Thing {
  const thing = {} as Thing;
  beforeAll(async () => {
    Object.assign(thing, await start());
  });
  afterAll(() => thing.close());
  return thing;
}
