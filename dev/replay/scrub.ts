/**
 * Removes private data from a history, so that it can be stored with the tests: texts of callers
 * and providers, addresses, ids, machine names. The data that decides the path of the workflow
 * stays.
 */
import { Buffer } from 'node:buffer';

type Value = unknown;

/** Fields with texts of callers or providers, which the workflow passes on and never reads. */
const privateFields = new Set(['request', 'input', 'data', 'progress']);
/** Fields of the envelope that name a machine or a path on it. */
const placeFields = new Set(['identity', 'stackTrace', 'binaryChecksum']);

/** Returns a history as JSON without private data; equal values get the same replacement. */
export function scrubHistory(history: Value): Value {
  const standIns = new Map<string, string>();
  const idPattern = /\b(job|org|key|usr|req|file|chat)_[0-9a-f]{32}\b/g;
  const uuidPattern = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;
  const standIn = (word: string, make: (count: string) => string): string => {
    const known = standIns.get(word);
    if (known !== undefined) return known;
    const made = make((standIns.size + 1).toString(16).padStart(32, '0'));
    standIns.set(word, made);
    return made;
  };
  const plain = (text: string): string =>
    text
      .replaceAll(/\bhttps?:\/\/[^\s"')\]]+/g, 'https://scrubbed.invalid/')
      .replaceAll(/[\w.+-]+@(?:[\w-]+\.)+[a-z]{2,}\b/gi, 'scrubbed@scrubbed.invalid')
      // The queue of a worker process contains the name of its machine.
      .replaceAll(/^\d+@\S+$/g, 'scrubbed')
      .replaceAll(idPattern, (id, prefix: string) => standIn(id, (count) => `${prefix}_${count}`));
  const withoutIds = (text: string): string =>
    plain(text).replaceAll(uuidPattern, (id) =>
      standIn(id, (count) => count.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')),
    );

  /** Replaces every text of a private field and keeps its structure. */
  function blank(value: Value): Value {
    if (typeof value === 'string') return value === '' ? '' : 'scrubbed';
    return mapped(value, blank);
  }
  function payload(value: Value): Value {
    if (typeof value === 'string') return withoutIds(value);
    return mapped(value, (inner, key) => (privateFields.has(key) ? blank(inner) : payload(inner)));
  }
  function envelope(value: Value): Value {
    if (typeof value === 'string') return plain(value);
    if (isJsonPayload(value)) {
      const text = Buffer.from(value.data, 'base64').toString('utf8');
      const scrubbed = JSON.stringify(payload(JSON.parse(text)));
      return { ...value, data: Buffer.from(scrubbed).toString('base64') };
    }
    return mapped(value, (inner, key) => (placeFields.has(key) ? '' : envelope(inner)));
  }
  return envelope(history);
}

/** Returns the replacement of a single text, such as the workflow id. */
export function scrubbedIdOf(history: Value): string | undefined {
  return /"workflowId":"([^"]+)"/.exec(JSON.stringify(history))?.[1];
}

function mapped(value: Value, change: (inner: Value, key: string) => Value): Value {
  if (Array.isArray(value)) return value.map((inner: Value) => change(inner, ''));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]: [string, Value]) => [key, change(inner, key)]),
  );
}

/** Encodings `json/plain` and `json/protobuf`, in base64 as in the JSON of a history. */
const jsonEncodings = ['json/plain', 'json/protobuf'].map((word) =>
  Buffer.from(word).toString('base64'),
);

function isJsonPayload(value: Value): value is { metadata: object; data: string } {
  if (typeof value !== 'object' || value === null) return false;
  if (!('metadata' in value) || !('data' in value) || typeof value.data !== 'string') return false;
  const { metadata } = value;
  return (
    typeof metadata === 'object' &&
    metadata !== null &&
    'encoding' in metadata &&
    jsonEncodings.includes(String(metadata.encoding))
  );
}
