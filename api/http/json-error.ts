/**
 * Finds the position of the first syntax error in malformed JSON. V8's own messages contain a
 * position only for some errors.
 */

const tokenPattern =
  /[{}[\],:]|"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/uy;
const spacePattern = /[ \t\n\r]*/y;

/** Kinds of tokens that are allowed next. `end` closes the open array or object. */
type AllowedTokens = 'value' | 'value or end' | 'name' | 'name or end' | 'colon' | 'comma or end';

/** Returns the line and column of the first token that is not allowed, both counted from 1. */
export function findJsonError(text: string): { line: number; column: number } {
  const index = findErrorIndex(text);
  const lines = text.slice(0, index).split('\n');
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

function findErrorIndex(text: string): number {
  /** Closing brackets of the arrays and objects that are open. */
  const closings: string[] = [];
  let allowedTokens: AllowedTokens = 'value';
  let index = 0;
  for (;;) {
    spacePattern.lastIndex = index;
    spacePattern.exec(text);
    index = tokenPattern.lastIndex = spacePattern.lastIndex;
    const [tokenText] = tokenPattern.exec(text) ?? [];
    const allowedNext: AllowedTokens | null =
      tokenText === undefined ? null : findNextTokens(tokenText, allowedTokens, closings);
    if (allowedNext === null || tokenText === undefined) return index;
    allowedTokens = allowedNext;
    index += tokenText.length;
  }
}

/**
 * Returns the tokens that are allowed after a token, or null if the token itself is not allowed.
 */
function findNextTokens(
  tokenText: string,
  allowedTokens: AllowedTokens,
  closings: string[],
): AllowedTokens | null {
  if (tokenText === closings.at(-1) && allowedTokens.endsWith('end')) {
    closings.pop();
    return 'comma or end';
  }
  if (allowedTokens === 'colon') return tokenText === ':' ? 'value' : null;
  if (allowedTokens === 'comma or end') {
    if (tokenText !== ',' || closings.length === 0) return null;
    return closings.at(-1) === '}' ? 'name' : 'value';
  }
  if (allowedTokens === 'name' || allowedTokens === 'name or end')
    return tokenText.startsWith('"') ? 'colon' : null;
  if (tokenText === '{' || tokenText === '[') {
    closings.push(tokenText === '{' ? '}' : ']');
    return tokenText === '{' ? 'name or end' : 'value or end';
  }
  return /^[\]},:]/.test(tokenText) ? null : 'comma or end';
}
