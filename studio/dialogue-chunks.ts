/** Cuts a dialogue into requests that the provider takes: 2,000 characters and ten voices at most. */

/** One line as the provider takes it. */
export interface SpokenLine {
  text: string;
  voice_id: string;
  [field: string]: string;
}

const chunkCharactersMax = 2000;
const chunkVoicesMax = 10;

/**
 * Chunks in the order of the lines. A chunk ends between lines; only a line that is longer than a chunk
 * is cut, after a sentence where there is one, else between words, and goes on in the same voice.
 */
export function chunksOf(lines: readonly SpokenLine[]): SpokenLine[][] {
  const chunks: SpokenLine[][] = [];
  let chunk: SpokenLine[] = [];
  for (const line of lines.flatMap(cutLine)) {
    const characters = chunk.reduce((sum, { text }) => sum + text.length, line.text.length);
    const spoken = new Set([...chunk.map((other) => other.voice_id), line.voice_id]);
    if (chunk.length > 0 && (characters > chunkCharactersMax || spoken.size > chunkVoicesMax)) {
      chunks.push(chunk);
      chunk = [];
    }
    chunk.push(line);
  }
  return [...chunks, chunk];
}

function cutLine({ text, voice_id }: SpokenLine): SpokenLine[] {
  const pieces: SpokenLine[] = [];
  let rest = text;
  while (rest.length > chunkCharactersMax) {
    const end = cutPoint(rest);
    pieces.push({ text: rest.slice(0, end), voice_id });
    rest = rest.slice(end);
  }
  // White space at a cut is nothing to say.
  return [...pieces, { text: rest, voice_id }].filter((piece) => /\S/u.test(piece.text));
}

/** Where to cut a text that is too long; never between the halves of one character. */
function cutPoint(text: string): number {
  const head = text.slice(0, chunkCharactersMax);
  const sentence = Math.max(
    ...[...head.matchAll(/[.!?…。！？]["'”’)]*\s*/gu)].map(
      (match) => match.index + match[0].length,
    ),
    0,
  );
  if (sentence > 0) return sentence;
  const word = head.search(/\s\S*$/u);
  if (word > 0) return word + 1;
  const last = head.charCodeAt(chunkCharactersMax - 1);
  return last >= 0xd800 && last < 0xdc00 ? chunkCharactersMax - 1 : chunkCharactersMax;
}
