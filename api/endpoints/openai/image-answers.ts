/** Formats the images of a job as a response of OpenAI's images API. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import type { StoredArtifact } from '../../../domain/job-plan.ts';
import { contentCredentials } from '../../../domain/job-record.ts';
import type { Composition } from '../../composition.ts';
import { listArtifacts, openArtifact } from './finished-job.ts';
import type { ImageRequest } from './image-requests.ts';

/** Schema of a response with images. */
export const imagesResponse = z
  .object({
    created: z.int(),
    data: z.array(
      z.object({
        url: z.url().optional(),
        b64_json: z.string().optional(),
        contentCredentials: contentCredentials.optional(),
      }),
    ),
  })
  .meta({ id: 'OpenAIImages' });

const imageResult = z.object({ images: z.array(z.object({ url: z.url() })) });

interface ImagesDeps {
  format: ImageRequest['response_format'];
  services: Composition;
}

/**
 * Yields the JSON of a job's images. Images are streamed from storage, so no image is held in
 * memory as a whole.
 */
export async function* streamImagesJson(
  job: JobRecord,
  { format, services }: ImagesDeps,
): AsyncGenerator<string> {
  const { images } = imageResult.parse(await services.view.result(job));
  const created = Math.floor((job.completedAtMs ?? job.createdAtMs) / 1000);
  yield `{"created":${created},"data":[`;
  for (const [index, artifact] of listArtifacts(job).entries()) {
    const url = images[index]?.url ?? '';
    yield index === 0 ? '{' : ',{';
    if (format !== 'b64_json') yield `"url":${JSON.stringify(url)}`;
    if (format !== 'url') {
      yield format === 'b64_json' ? '"b64_json":"' : ',"b64_json":"';
      yield* streamBase64(artifact, services);
      yield '"';
    }
    yield `,"contentCredentials":${JSON.stringify(artifact.contentCredentials)}}`;
  }
  yield ']}';
}

/**
 * Streams an artifact as Base64. Each chunk encodes a multiple of three bytes, so that the chunks
 * can be concatenated.
 */
async function* streamBase64(
  artifact: StoredArtifact,
  services: Pick<Composition, 'storage'>,
): AsyncGenerator<string> {
  const { stream } = await openArtifact(artifact, services);
  const chunks: AsyncIterable<Buffer> = stream;
  let remainder = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([remainder, chunk]);
    const encodedBytes = bytes.length - (bytes.length % 3);
    yield bytes.toString('base64', 0, encodedBytes);
    remainder = bytes.subarray(encodedBytes);
  }
  yield remainder.toString('base64');
}
