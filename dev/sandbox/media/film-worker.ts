/** Worker thread that encodes one film: the encoder is synchronous and would stall the server. */
import { parentPort, workerData } from 'node:worker_threads';
import h264 from 'h264-mp4-encoder';
import { z } from 'zod';
import { assert } from '../../../domain/assert.ts';

const film = z
  .object({
    width: z.int(),
    height: z.int(),
    fps: z.int(),
    frames: z.int(),
    /** RGBA of the still that every frame begins with. */
    still: z.instanceof(Uint8Array),
  })
  .parse(workerData);

/** A white square that crosses the picture once, so that frames differ. */
function paintSquare(frame: Uint8Array, progress: number): void {
  const edge = Math.floor(Math.min(film.width, film.height) / 8);
  const left = Math.floor((film.width - edge) * progress);
  const top = Math.floor((film.height - edge) / 2);
  for (let y = top; y < top + edge; y += 1) {
    const start = (y * film.width + left) * 4;
    frame.fill(255, start, start + edge * 4);
  }
}

const encoder = await h264.createH264MP4Encoder();
encoder.width = film.width;
encoder.height = film.height;
encoder.frameRate = film.fps;
encoder.speed = 10;
encoder.quantizationParameter = 36;
// The container has no table of key frames, so a player takes every frame for one: make it true.
encoder.groupOfPictures = 1;
encoder.initialize();
const frame = new Uint8Array(film.still.length);
for (let index = 0; index < film.frames; index += 1) {
  frame.set(film.still);
  paintSquare(frame, film.frames > 1 ? index / (film.frames - 1) : 0);
  encoder.addFrameRgba(frame);
}
encoder.finalize();
const bytes = Uint8Array.from(encoder.FS.readFile(encoder.outputFilename));
encoder.delete();
assert(parentPort, 'this module runs as a worker');
parentPort.postMessage(bytes, [bytes.buffer]);
