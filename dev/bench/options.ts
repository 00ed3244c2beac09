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

/** Returns a parser of comma-separated names, which must be known or have the form `gateway@FOLDER`. */
export function parseNames(known: readonly string[]): (text: string) => string[] {
  return (text) =>
    text.split(',').map((variant) => {
      if (known.includes(variant) || variant.startsWith('gateway@')) return variant;
      throw new InvalidArgumentError(`${variant} must be one of ${known.join(', ')}.`);
    });
}

/** Parses `NAME=value`, and adds it to the values of the earlier options. */
export function assignment(text: string, earlier: Record<string, string>): Record<string, string> {
  const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('must be NAME=value.');
  }
  return { ...earlier, [name]: value };
}
