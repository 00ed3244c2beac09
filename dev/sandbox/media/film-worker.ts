/** Worker thread that encodes short sequences of video frames. The encoder is synchronous and would block the server. */
import { on } from 'node:events';
import { parentPort } from 'node:worker_threads';
import h264 from 'h264-mp4-encoder';
import { z } from 'zod';
import { assert } from '../../../domain/errors.ts';

const loopSchema = z.object({
  width: z.int(),
  height: z.int(),
  pictures: z.int(),
  /** RGBA bytes of the still image from which every frame is made. */
  still: z.instanceof(Uint8Array),
});

/** Sequence of frames to encode. */
export type PictureLoop = z.infer<typeof loopSchema>;

/** Paints a white square, whose position depends on `progress`, so that the frames differ. */
function paintSquare(picture: Uint8Array, { width, height }: PictureLoop, progress: number): void {
  const edge = Math.floor(Math.min(width, height) / 8);
  const left = Math.floor((width - edge) * progress);
  const top = Math.floor((height - edge) / 2);
  for (let y = top; y < top + edge; y += 1) {
    const start = (y * width + left) * 4;
    picture.fill(255, start, start + edge * 4);
  }
}

/** Encodes the frames as an MP4. */
async function encode(loop: PictureLoop): Promise<Uint8Array<ArrayBuffer>> {
  const encoder = await h264.createH264MP4Encoder();
  encoder.width = loop.width;
  encoder.height = loop.height;
  encoder.frameRate = loop.pictures;
  encoder.speed = 10;
  encoder.quantizationParameter = 36;
  // Each frame is a key frame, so that the sequence can be repeated.
  encoder.groupOfPictures = 1;
  encoder.initialize();
  const picture = new Uint8Array(loop.still.length);
  for (let index = 0; index < loop.pictures; index += 1) {
    picture.set(loop.still);
    paintSquare(picture, loop, index / (loop.pictures - 1));
    encoder.addFrameRgba(picture);
  }
  encoder.finalize();
  const bytes = Uint8Array.from(encoder.FS.readFile(encoder.outputFilename));
  encoder.delete();
  return bytes;
}

assert(parentPort, 'film-worker.ts must run as a worker thread');
for await (const [message] of on(parentPort, 'message')) {
  const bytes = await encode(loopSchema.parse(message));
  parentPort.postMessage(bytes, [bytes.buffer]);
}
