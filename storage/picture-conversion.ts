/**
 * Converts pictures that no provider reads (HEIC, AVIF) to JPEG, or PNG if they are transparent, once
 * when they arrive. A process of its own decodes each file (convert-picture.ts), because a decoder
 * runs native code that no thread can stop; the process ends after the file.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rename, rm, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { GatewayError } from '../domain/errors.ts';
import { correlation } from '../platform/logger.ts';
import { createShares } from '../platform/shares.ts';
import { createFileSource, type ByteSource } from './byte-source.ts';
import {
  checkFileSize,
  fileBytesMax,
  readAccepted,
  UnusableFile,
  type AcceptedFacts,
  type MediaUse,
} from './media-types.ts';

/** Checked file. `convertedFrom` is the name of the format that it had, null if it was not converted. */
export type AcceptedFile = AcceptedFacts & { convertedFrom: string | null };

/** Function that checks a spooled file, and converts it in place if no provider reads its format. */
export type AcceptFile = (path: string, use?: MediaUse) => Promise<AcceptedFile>;

/** Conversions of one process at a time: each decodes up to 64 megapixels. */
const slots = createShares(1);
const slotWaitMs = 60_000;
/** Maximum CPU time of a conversion, and maximum duration on a busy machine, in milliseconds. */
const cpuMsMax = 30_000;
const timeoutMs = 120_000;
/** Maximum memory of a conversion in bytes: 64 megapixels take 700 MB. */
const memoryBytesMax = 1024 ** 3;
const checkMs = 50;
/** Units of Linux in /proc: bytes of a page, and milliseconds of a clock tick. */
const pageBytes = 4096;
const tickMs = 10;
const program = fileURLToPath(new URL('convert-picture.ts', import.meta.url));

/** Creates the function that accepts files; without `heic`, HEIC is rejected by name. */
export function createAcceptFile({ heic }: { heic: boolean }): AcceptFile {
  return async (path, use) => {
    const facts = await readAccepted(createFileSource(path), use);
    const { name, extension, isConverted } = facts.type;
    if (!isConverted) return { ...facts, convertedFrom: null };
    if (extension === 'heic' && !heic) {
      throw new UnusableFile(
        'is HEIC, which this gateway does not convert; send it as JPEG, PNG, WebP or AVIF',
      );
    }
    const release = await slots.enter(correlation().organizationId ?? '', slotWaitMs);
    if (!release) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many pictures are being converted.', {
        retryAfterSeconds: 2,
      });
    }
    const converted = `${path}.converted`;
    try {
      await convert(path, converted, extension).catch((cause: unknown) => {
        throw new UnusableFile(`is a damaged ${name}, or one that cannot be decoded`, undefined, {
          cause,
        });
      });
      const { size } = await stat(converted);
      if (size > fileBytesMax.image) {
        const message = `has ${size} bytes as JPEG; at most ${fileBytesMax.image} are allowed`;
        throw new UnusableFile(message, 'FILE_TOO_LARGE');
      }
      await rename(converted, path);
    } finally {
      release();
      await rm(converted, { force: true });
    }
    return { ...(await readAccepted(createFileSource(path), use)), convertedFrom: name };
  };
}

/**
 * Checks the bytes of an upload, whatever type was declared. Does not convert it.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, SERVICE_UNAVAILABLE
 */
export const readUpload = (source: ByteSource, sizeBytes: number): Promise<AcceptedFacts> =>
  checkUpload(readAccepted(source), sizeBytes);

/**
 * Checks the bytes of an upload like `readUpload`, and converts them if no provider reads them.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, SERVICE_UNAVAILABLE
 */
export const acceptUpload = async (acceptFile: AcceptFile, path: string): Promise<AcceptedFile> =>
  checkUpload(acceptFile(path), (await stat(path)).size);

async function checkUpload<Facts extends AcceptedFacts>(
  reading: Promise<Facts>,
  sizeBytes: number,
): Promise<Facts> {
  try {
    const facts = await reading;
    checkFileSize(facts.type, sizeBytes);
    return facts;
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    throw new GatewayError(error.code, `The file ${error.message}.`);
  }
}

/** Returns whether a process exceeds its limits; false if it has ended or cannot be read. */
async function exceedsLimits(pid: number | undefined): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  // The name of the program, which may contain spaces, ends with the last parenthesis.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [userTicks = 0, systemTicks = 0, pages = 0] = [fields[11], fields[12], fields[21]];
  return (userTicks + systemTicks) * tickMs > cpuMsMax || pages * pageBytes > memoryBytesMax;
}

/** Converts a file in a process of its own. @throws Error if the process fails or is killed */
async function convert(from: string, to: string, format: string): Promise<void> {
  const child = spawn(process.execPath, [program, from, to, format], {
    stdio: 'ignore',
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    env: {},
  });
  const timer = setInterval(() => {
    void exceedsLimits(child.pid).then((isTooMuch) => isTooMuch && child.kill('SIGKILL'));
  }, checkMs);
  try {
    const [code, signal] = await once(child, 'exit');
    if (code !== 0) throw new Error(`the conversion ended with ${code ?? signal}`);
  } finally {
    clearInterval(timer);
  }
}
