/**
 * Finds the position of the first syntax error in malformed JSON. V8's own messages contain a
 * position only for some errors.
 */

const token =
  /[{}[\],:]|"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/uy;
const space = /[ \t\n\r]*/y;

/**
 * Kinds of tokens that are allowed next. `end` is the bracket that closes the open array or object.
 */
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
  let allowed: AllowedTokens = 'value';
  let index = 0;
  for (;;) {
    space.lastIndex = index;
    space.exec(text);
    index = token.lastIndex = space.lastIndex;
    const [tokenText] = token.exec(text) ?? [];
    const allowedNext: AllowedTokens | null =
      tokenText === undefined ? null : findNextTokens(tokenText, allowed, closings);
    if (allowedNext === null || tokenText === undefined) return index;
    allowed = allowedNext;
    index += tokenText.length;
  }
}

/**
 * Returns the tokens that are allowed after a token, or null if the token itself is not allowed.
 */
function findNextTokens(
  tokenText: string,
  allowed: AllowedTokens,
  closings: string[],
): AllowedTokens | null {
  if (tokenText === closings.at(-1) && allowed.endsWith('end')) {
    closings.pop();
    return 'comma or end';
  }
  if (allowed === 'colon') return tokenText === ':' ? 'value' : null;
  if (allowed === 'comma or end') {
    if (tokenText !== ',' || closings.length === 0) return null;
    return closings.at(-1) === '}' ? 'name' : 'value';
  }
  if (allowed === 'name' || allowed === 'name or end')
    return tokenText.startsWith('"') ? 'colon' : null;
  if (tokenText === '{' || tokenText === '[') {
    closings.push(tokenText === '{' ? '}' : ']');
    return tokenText === '{' ? 'name or end' : 'value or end';
  }
  return /^[\]},:]/.test(tokenText) ? null : 'comma or end';
}
