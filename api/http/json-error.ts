/** Position of the first error in a text that is not JSON; V8 reports it for some errors only. */

const token =
  /[{}[\],:]|"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/uy;
const space = /[ \t\n\r]*/y;

/** Tokens that may follow; `end` is the end of the list or object. */
type Next = 'value' | 'value or end' | 'name' | 'name or end' | 'colon' | 'comma or end';

/** Returns the line and the column, both from 1, of the first token that is not allowed. */
export function jsonErrorPlace(text: string): { line: number; column: number } {
  const at = firstError(text);
  const lines = text.slice(0, at).split('\n');
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

function firstError(text: string): number {
  /** Ends of the lists and objects that are open. */
  const ends: string[] = [];
  let next: Next = 'value';
  let at = 0;
  for (;;) {
    space.lastIndex = at;
    space.exec(text);
    at = token.lastIndex = space.lastIndex;
    const [tokenText] = token.exec(text) ?? [];
    const following: Next | null =
      tokenText === undefined ? null : nextAfter(tokenText, next, ends);
    if (following === null || tokenText === undefined) return at;
    next = following;
    at += tokenText.length;
  }
}

/** Returns the tokens that may follow a token; null if the token is not allowed. */
function nextAfter(tokenText: string, next: Next, ends: string[]): Next | null {
  if (tokenText === ends.at(-1) && next.endsWith('end')) {
    ends.pop();
    return 'comma or end';
  }
  if (next === 'colon') return tokenText === ':' ? 'value' : null;
  if (next === 'comma or end') {
    if (tokenText !== ',' || ends.length === 0) return null;
    return ends.at(-1) === '}' ? 'name' : 'value';
  }
  if (next === 'name' || next === 'name or end') return tokenText.startsWith('"') ? 'colon' : null;
  if (tokenText === '{' || tokenText === '[') {
    ends.push(tokenText === '{' ? '}' : ']');
    return tokenText === '{' ? 'name or end' : 'value or end';
  }
  return /^[\]},:]/.test(tokenText) ? null : 'comma or end';
}
