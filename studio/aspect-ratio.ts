/** The shape of a picture as callers name it. */

/** What models are asked for; a picture in whole pixels comes close to one of them. */
const named = [
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
const differenceMax = 0.02;

/** `16:9` of 1360×768; of a shape without a usual name its edges, as short as they can be: `8:5`. */
export function aspectRatioOf({
  width,
  height,
}: {
  width: number | null;
  height: number | null;
}): string | null {
  if (width === null || height === null) return null;
  const like = named.find((name) => {
    const [wide = 0, high = 1] = name.split(':').map(Number);
    return Math.abs((width / height) * (high / wide) - 1) <= differenceMax;
  });
  return like ?? ratioOf(width, height);
}

/** Width to height in lowest terms. */
export function ratioOf(width: number, height: number): string {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
  const common = Math.max(1, divisor(width, height));
  return `${width / common}:${height / common}`;
}
