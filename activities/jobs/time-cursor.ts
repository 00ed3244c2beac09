/** Where the next page of a list goes on that is ordered by time, then by id: opaque to callers. */
import { fieldError } from '../../domain/errors.ts';

const cursorForm = /^(\d{1,16})\.([\w./-]{1,150})$/;

/** The last row of a page; its time in microseconds. */
interface Place {
  micros: number | string;
  id: string;
}

/** A cursor. */
export function timeCursorOf({ micros, id }: Place): string {
  return Buffer.from(`${micros}.${id}`).toString('base64url');
}

/** @throws GatewayError INVALID_REQUEST for what no page gave */
export function parseTimeCursor(cursor: string): { micros: string; id: string } {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const [, micros, id] = cursorForm.exec(text) ?? [];
  if (micros === undefined || id === undefined) {
    throw fieldError('INVALID_REQUEST', 'cursor', 'is not a cursor of this list');
  }
  return { micros, id };
}
