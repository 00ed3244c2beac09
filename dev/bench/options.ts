/** Reading the values of command lines; what is wrong is said, and ends the program. */
import { InvalidArgumentError } from 'commander';

/** A number from 0 on. */
export function number(text: string): number {
  const value = Number(text);
  if (text !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('must be a number of at least 0.');
}

/** Numbers with commas between them. */
export function numbers(text: string): number[] {
  return text.split(',').map(number);
}

/** Known words with commas between them; a gateway may be of another checkout: `gateway@FOLDER`. */
export function waysOf(known: readonly string[]): (text: string) => string[] {
  return (text) =>
    text.split(',').map((way) => {
      if (known.includes(way) || way.startsWith('gateway@')) return way;
      throw new InvalidArgumentError(`${way} is none of ${known.join(', ')}.`);
    });
}

/** `NAME=value`, beside the ones before. */
export function assignment(text: string, before: Record<string, string>): Record<string, string> {
  const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('must be NAME=value.');
  }
  return { ...before, [name]: value };
}
