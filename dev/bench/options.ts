/** Parsers of command-line options; an invalid value ends the program with a message. */
import { InvalidArgumentError } from 'commander';

/** Parses a number of at least 0. */
export function number(text: string): number {
  const value = Number(text);
  if (text !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('must be a number of at least 0.');
}

/** Parses numbers separated by commas. */
export function numbers(text: string): number[] {
  return text.split(',').map(number);
}

/** Parses known names separated by commas, and `gateway@FOLDER`. */
export function waysOf(known: readonly string[]): (text: string) => string[] {
  return (text) =>
    text.split(',').map((way) => {
      if (known.includes(way) || way.startsWith('gateway@')) return way;
      throw new InvalidArgumentError(`${way} is none of ${known.join(', ')}.`);
    });
}

/** Adds `NAME=value` to the values before. */
export function assignment(text: string, before: Record<string, string>): Record<string, string> {
  const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('must be NAME=value.');
  }
  return { ...before, [name]: value };
}
