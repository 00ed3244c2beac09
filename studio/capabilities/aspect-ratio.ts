/** Finds the name of an aspect ratio, e.g. `16:9`. */

/** Common aspect ratios. The ratio of a generated picture may differ slightly. */
const commonRatios = [
  '1:1',
  '4:3',
  '3:4',
  '3:2',
  '2:3',
  '16:9',
  '9:16',
  '21:9',
  '9:21',
  '5:4',
  '4:5',
  '8:5',
  '5:8',
];
/**
 * Maximum relative difference between the ratio of a picture and the common ratio that describes
 * it.
 */
const differenceMax = 0.02;

/**
 * Returns the aspect ratio of a size: `16:9` for 1360×768, or the reduced ratio if no common ratio
 * is close enough.
 */
export function findAspectRatio({
  width,
  height,
}: {
  width: number | null;
  height: number | null;
}): string | null {
  if (width === null || height === null) return null;
  const match = commonRatios.find((name) => {
    const [wide = 0, high = 1] = name.split(':').map(Number);
    return Math.abs((width / height) * (high / wide) - 1) <= differenceMax;
  });
  return match ?? reduceRatio(width, height);
}

/** Returns the ratio of width to height in lowest terms. */
export function reduceRatio(width: number, height: number): string {
  const findDivisor = (a: number, b: number): number => (b === 0 ? a : findDivisor(b, a % b));
  const divisor = Math.max(1, findDivisor(width, height));
  return `${width / divisor}:${height / divisor}`;
}
