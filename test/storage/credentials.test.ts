/** The mark of generated media: names of models cannot break the XMP packet that contains them. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import { expect, it } from 'vitest';
import { markFile } from '../../storage/credentials/content-credentials.ts';
import { newFolder } from '../harness/folders.ts';

it('escapes quotes and brackets of a model name in XMP', async () => {
  const directory = newFolder();
  const path = join(directory, 'a.png');
  await writeFile(
    path,
    await sharp({ create: { width: 2, height: 2, channels: 3, background: '#36c' } })
      .png()
      .toBuffer(),
  );
  const mark = {
    jobId: 'job_1',
    model: `alpha" xmp:Rating="5" a<b>&'c`,
    hasCallerMedia: false,
    createdAt: new Date(0),
  };
  const newPath = async () => join(directory, 'b.png');
  const marked = await markFile(path, mark, { extension: 'png', newPath });
  expect(marked.credentials).toBe('gateway');
  const text = (await readFile(marked.path)).toString('utf8');
  const [, written = ''] = /AISystemUsed="([^"]*)"/.exec(text) ?? [];
  const decoded = written.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
  expect(decoded).toBe(mark.model);
  expect(text).not.toContain('xmp:Rating="5"');
});
