/** Finished pictures as OpenAI's clients read them. The bytes are on their way only once, piece by piece. */
import { Readable } from 'node:stream';
import { z } from 'zod';
import type { JobRecord } from '../../../activities/jobs/job-reads.ts';
import type { StoredArtifact } from '../../../jobs/job-plan.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { artifactsOf, bytesOf } from './finished-job.ts';
import type { ImageAsked } from './image-request.ts';

/** The answer, described. */
export const imagesAnswer = z
  .object({
    created: z.int(),
    data: z.array(z.object({ url: z.url().optional(), b64_json: z.string().optional() })),
  })
  .meta({ id: 'OpenAIImages' });

const shown = z.object({ images: z.array(z.object({ url: z.url() })) });

/** Answers with the pictures of a job. */
export async function answerImages(
  ctx: Context,
  { job, format }: { job: JobRecord; format: ImageAsked['response_format'] },
  services: Pick<Composition, 'storage' | 'view'>,
): Promise<void> {
  const { images } = shown.parse(await services.view.result(job));
  const artifacts = artifactsOf(job);
  const created = Math.floor((job.completed_at ?? job.created_at) / 1000);
  async function* json(): AsyncGenerator<string> {
    yield `{"created":${created},"data":[`;
    for (const [index, artifact] of artifacts.entries()) {
      const url = images[index]?.url ?? '';
      yield index === 0 ? '{' : ',{';
      if (format !== 'b64_json') yield `"url":${JSON.stringify(url)}`;
      if (format !== 'url') {
        yield format === 'b64_json' ? '"b64_json":"' : ',"b64_json":"';
        yield* base64Of(artifact, services);
        yield '"';
      }
      yield '}';
    }
    yield ']}';
  }
  ctx.type = 'json';
  ctx.body = Readable.from(json(), { objectMode: false });
}

/** Base64 in pieces of whole triplets, so that their texts join. */
async function* base64Of(
  artifact: StoredArtifact,
  services: Pick<Composition, 'storage'>,
): AsyncGenerator<string> {
  const { stream } = await bytesOf(artifact, services);
  const pieces: AsyncIterable<Buffer> = stream;
  let rest = Buffer.alloc(0);
  for await (const piece of pieces) {
    const bytes = Buffer.concat([rest, piece]);
    const whole = bytes.length - (bytes.length % 3);
    yield bytes.toString('base64', 0, whole);
    rest = bytes.subarray(whole);
  }
  yield rest.toString('base64');
}
