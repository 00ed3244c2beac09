/** Sends what never changes while a process runs: one buffer per encoding, with ETag and 304. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { z } from 'zod';
import type { Context } from '../context.ts';

type Encoding = 'identity' | 'gzip' | 'br';
/** Bodies of a constant by encoding; `identity` is always present. */
export type ConstantBodies = Map<Encoding, Buffer>;

/** Makes a constant: its text, its bytes, or its bodies. */
type Make = () => string | Promise<string | Buffer | ConstantBodies>;

interface Constant {
  bodies: ConstantBodies;
  etag: string;
}

/** Responses of an endpoint that sends a constant. */
export const constantAnswers = { 200: 'The content.', 304: 'The client has the content.' };

/** Describes the responses of an endpoint that sends a constant in JSON. */
export const describeConstant = (schema: z.ZodType) => ({
  200: { description: constantAnswers[200], schema },
  304: { description: constantAnswers[304], schema: z.void() },
});

/** Minimum size in bytes of a constant to compress. */
const compressBytesMin = 1024;
const compress = promisify(gzip);

/**
 * Creates the function that sends the constants of a process. A constant is made at its first
 * request, by `make`, and kept under its name. An error of `make` is thrown and not kept.
 */
export function createConstants() {
  const constants = new Map<string, Promise<Constant>>();

  return {
    /** Sends the constant with this name and media type, or 304 if the client has it. */
    async send(
      ctx: Context,
      { name, type }: { name: string; type: string },
      make: Make,
    ): Promise<void> {
      const existing = constants.get(name);
      const constant = existing ?? create(make);
      if (!existing) {
        constants.set(name, constant);
        constant.catch(() => constants.delete(name));
      }
      const { bodies, etag } = await constant;
      ctx.status = 200;
      ctx.vary('Accept-Encoding');
      ctx.set('ETag', etag);
      ctx.state.isConstant = true;
      // Koa's `ctx.fresh` is always false for requests with `Cache-Control: no-cache`, a header that
      // `fetch` adds to conditional requests.
      if (matchesEtag(ctx.get('if-none-match'), etag)) {
        ctx.status = 304;
        return;
      }
      ctx.type = type;
      const accepted = ctx.acceptsEncodings('br', 'gzip', 'identity');
      const encoding =
        accepted === 'br' && !bodies.has('br')
          ? ctx.acceptsEncodings('gzip', 'identity')
          : accepted;
      const encoded = encoding === 'br' || encoding === 'gzip' ? bodies.get(encoding) : undefined;
      if (encoded) ctx.set('Content-Encoding', String(encoding));
      ctx.body = encoded ?? bodies.get('identity');
    },
  };
}

function matchesEtag(header: string, etag: string): boolean {
  const etags = header.split(',').map((value) => value.trim().replace(/^W\//, ''));
  return etags.includes(etag.slice(2)) || etags.includes('*');
}

/** Makes a constant, and compresses it if `make` has not. */
async function create(make: Make): Promise<Constant> {
  const made = await make();
  const bodies: ConstantBodies =
    made instanceof Map ? made : new Map([['identity', Buffer.from(made)]]);
  const body = bodies.get('identity') ?? Buffer.alloc(0);
  if (bodies.size === 1 && body.length >= compressBytesMin)
    bodies.set('gzip', await compress(body));
  // A weak tag, because all encodings share it.
  return { bodies, etag: `W/"${createHash('sha256').update(body).digest('base64url')}"` };
}
