/** Where fal's models put their files: `images`, `image` or `video`. */
import { z } from 'zod';
import { ProviderFailure, type Checked, type ProviderOutput } from '../provider.ts';

const file = z.object({ url: z.string().min(1), content_type: z.string().nullish() });
const answer = z.object({
  images: z.array(file).nullish(),
  image: file.nullish(),
  video: z.union([file, z.array(file)]).nullish(),
});

/** The files of a result; a result without any is a failure of the provider. */
export function outputsOf(body: unknown): Checked {
  const parsed = answer.safeParse(body);
  const files = parsed.success
    ? [parsed.data.images ?? [], parsed.data.image ?? [], parsed.data.video ?? []].flat()
    : [];
  if (files.length === 0) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', 'the provider answered without a usable output'),
    };
  }
  const outputs: ProviderOutput[] = files.map((entry) => ({
    kind: 'url',
    url: entry.url,
    contentType: entry.content_type ?? null,
  }));
  return { kind: 'result', result: { outputs, data: null } };
}
