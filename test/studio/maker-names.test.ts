/**
 * Makers’ names of Studio models: each leads to a row, and the callers’ page has the same table.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { editModels, imageModels } from '../../studio/models/image-models.ts';
import { findByAnyName, publicIdsByMakerName } from '../../studio/models/maker-names.ts';
import { videoModels } from '../../studio/models/video-models.ts';
import { catchGatewayError } from '../harness/failures.ts';

const rows: { id: string }[] = [...imageModels, ...videoModels];
const page = readFileSync(new URL('../../docs/compatible-clients.md', import.meta.url), 'utf8');

describe('a Studio model', () => {
  it('is found by its id and by each name of its maker', () => {
    for (const { id } of rows) expect(findByAnyName(rows, id).id).toBe(id);
    for (const [name, id] of Object.entries(publicIdsByMakerName)) {
      expect(findByAnyName(rows, name).id).toBe(id);
      const line = page.split('\n').find((each) => each.includes(`\`${name}\``)) ?? '';
      expect(line, name).toContain(`\`${id}\``);
    }
  });

  it('is the first of the list if the request names none', () => {
    expect(findByAnyName(imageModels, null).id).toBe('nano-banana');
    expect(findByAnyName(videoModels, undefined).id).toBe('veo');
  });

  it.each(['dall-e-3', 'sora-2', '', 'constructor', 'x'.repeat(1000)])(
    'with an unknown name is rejected with similar ids: %s',
    (name) => {
      const { code, message } = catchGatewayError(() => findByAnyName(rows, name));
      expect(code).toBe('UNKNOWN_MODEL');
      expect(message).toContain('did you mean');
      expect(message.length).toBeLessThan(500);
    },
  );

  it('without edit support is unknown to edits, by any of its names', () => {
    const { message } = catchGatewayError(() => findByAnyName(editModels, 'gpt-image-1'));
    expect(message).toContain('gpt-image-2');
  });
});
