/** Numbers that stand for texts: whatever the sandbox makes up is the same every time. */
import { createHash } from 'node:crypto';

/** A number from 0 to 2³¹ − 1 made of a text. */
export function seedOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) >>> 1;
}
