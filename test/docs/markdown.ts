/** Reads the fenced blocks of the documents. */
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A fenced block. */
export interface Block {
  /** Path from the root of the project. */
  file: string;
  /** Line of its start, from 1. */
  line: number;
  language: string;
  text: string;
  /** Expected output: the next block, if it is `json` or `text`. */
  prints: Block | null;
}

/** Lists README.md, those of the clients, and the pages of docs/. */
export async function documents(): Promise<string[]> {
  const inDocs = await readdir(`${root}docs`, { recursive: true });
  const pages = inDocs.filter((name) => name.endsWith('.md')).toSorted();
  const clients = ['typescript', 'ai-sdk', 'python'].map((name) => `clients/${name}/README.md`);
  return ['README.md', ...clients, ...pages.map((name) => `docs/${name}`)];
}

/** Reads the blocks of a document, in order. */
export async function readBlocks(file: string): Promise<Block[]> {
  const lines = (await readFile(root + file, 'utf8')).split('\n');
  const blocks: Block[] = [];
  let open: { language: string; from: number } | null = null;
  for (const [index, line] of lines.entries()) {
    const [, language] = /^```(\w*)\s*$/.exec(line) ?? [];
    if (language === undefined) continue;
    if (!open) open = { language, from: index + 1 };
    else {
      const text = lines.slice(open.from, index).join('\n');
      blocks.push({ file, line: open.from, language: open.language, text, prints: null });
      open = null;
    }
  }
  for (const [index, block] of blocks.entries()) {
    const next = blocks[index + 1];
    if (next && ['json', 'text'].includes(next.language)) block.prints = next;
  }
  return blocks;
}
