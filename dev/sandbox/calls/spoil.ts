/** Faults in the bytes of an answer's media. */
import { findFault } from '../faults.ts';
import type { CallContext } from './call.ts';

const errorPage = Buffer.from('<!doctype html><title>Error</title><h1>Bad gateway</h1>');

/** The bytes, unless a fault spoils them: empty, a web page, or silently half. */
export function spoil(bytes: Buffer, { faults }: CallContext): Buffer {
  if (findFault(faults, 'empty-media')) return Buffer.alloc(0);
  if (findFault(faults, 'wrong-type-media')) return errorPage;
  const isHalf = findFault(faults, 'truncated-media')?.argument === 'silent';
  return isHalf ? bytes.subarray(0, Math.floor(bytes.length / 2)) : bytes;
}
