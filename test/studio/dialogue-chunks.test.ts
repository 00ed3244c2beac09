import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { splitIntoChunks } from '../../studio/capabilities/dialogue-generate.ts';

const line = (text: string, voice = 'a') => ({ text, voice_id: voice });
const listTexts = (chunks: ReturnType<typeof splitIntoChunks>) =>
  chunks.map((chunk) => chunk.map(({ text }) => text));

describe('a dialogue request', () => {
  it('stays whole up to 2,000 characters and is split between lines above', () => {
    expect(splitIntoChunks([line('x'.repeat(1000)), line('y'.repeat(1000))])).toHaveLength(1);
    expect(listTexts(splitIntoChunks([line('x'.repeat(1000)), line('y'.repeat(1001))]))).toEqual([
      ['x'.repeat(1000)],
      ['y'.repeat(1001)],
    ]);
  });

  it('is split inside a long line after a sentence, with the same voice', () => {
    const sentence = `${'word '.repeat(200).trim()}. `;
    const chunks = splitIntoChunks([line(sentence.repeat(3).trim(), 'b')]);
    expect(listTexts(chunks)).toEqual([[sentence], [sentence], [sentence.trim()]]);
    expect(chunks.flat().every(({ voice_id }) => voice_id === 'b')).toBe(true);
  });

  it('contains at most ten voices in one call', () => {
    const chunks = splitIntoChunks(
      Array.from({ length: 23 }, (_, index) => line('hi', `v${index}`)),
    );
    expect(chunks.map((chunk) => chunk.length)).toEqual([10, 10, 3]);
  });

  it('loses only white space at a split, and splits no character', () => {
    const words = fc.stringMatching(/^[a-zé言😀 .!?]{1,300}$/u);
    const texts = fc.array(
      fc.array(words, { minLength: 1, maxLength: 12 }).map((parts) => `x${parts.join('')}`),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(texts, (lines) => {
        const chunks = splitIntoChunks(lines.map((text) => line(text)));
        const spoken = chunks.flat().map(({ text }) => text);
        expect(spoken.join('').replaceAll(/\s/gu, '')).toBe(lines.join('').replaceAll(/\s/gu, ''));
        for (const text of spoken) expect(text.isWellFormed()).toBe(true);
        for (const chunk of chunks) {
          expect(chunk.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(2000);
          expect(chunk.length).toBeGreaterThan(0);
        }
      }),
      { numRuns: 60 },
    );
  });
});
