import { afterAll, beforeAll } from 'vitest';

/** A resource of a test file: created before its first test, closed after its last. */
export function during<Thing extends { close: () => unknown }>(start: () => Promise<Thing>): Thing {
  const thing = {} as Thing;
  beforeAll(async () => {
    Object.assign(thing, await start());
  });
  afterAll(() => thing.close());
  return thing;
}
