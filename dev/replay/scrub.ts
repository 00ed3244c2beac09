/**
 * Removes private data from a history, so that it can be stored with the tests: texts of callers and providers, addresses,
 * ids and machine names. Keeps the data that decides which steps the workflow takes.
 */
import { Buffer } from 'node:buffer';

type Value = unknown;

/** Fields with strings from callers or providers, which the workflow passes on without reading them. */
const privateFields = new Set(['request', 'input', 'data', 'progress']);
/** Fields with the name of a machine or a path on it. */
const placeFields = new Set(['identity', 'stackTrace', 'binaryChecksum']);

/** Replaces the private data in a history. Equal ids receive the same replacement. */
export function scrubHistory(history: Value): Value {
  const replacements = new Map<string, string>();
  const idPattern = /\b(job|org|key|usr|req|file|chat|bulk|evt|act)_[0-9a-f]{32}\b/g;
  const uuidPattern = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;
  const replaceId = (id: string, make: (count: string) => string): string => {
    const existing = replacements.get(id);
    if (existing !== undefined) return existing;
    const replacement = make((replacements.size + 1).toString(16).padStart(32, '0'));
    replacements.set(id, replacement);
    return replacement;
  };
  const scrubText = (text: string): string =>
    text
      .replaceAll(/\bhttps?:\/\/[^\s"')\]]+/g, 'https://scrubbed.invalid/')
      .replaceAll(/[\w.+-]+@(?:[\w-]+\.)+[a-z]{2,}\b/gi, 'scrubbed@scrubbed.invalid')
      // The task queue of a worker process contains the name of its machine.
      .replaceAll(/^\d+@\S+$/g, 'scrubbed')
      .replaceAll(idPattern, (id, prefix: string) =>
        replaceId(id, (count) => `${prefix}_${count}`),
      );
  const scrubIds = (text: string): string =>
    scrubText(text).replaceAll(uuidPattern, (id) =>
      replaceId(id, (count) => count.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')),
    );

  /** Replaces all strings in a private field, and keeps its structure. */
  function scrubPrivateField(value: Value): Value {
    if (typeof value === 'string') return value === '' ? '' : 'scrubbed';
    return mapValues(value, scrubPrivateField);
  }
  function scrubPayload(value: Value): Value {
    if (typeof value === 'string') return scrubIds(value);
    return mapValues(value, (inner, key) =>
      privateFields.has(key) ? scrubPrivateField(inner) : scrubPayload(inner),
    );
  }
  function scrubEnvelope(value: Value): Value {
    if (typeof value === 'string') return scrubText(value);
    if (isJsonPayload(value)) {
      const text = Buffer.from(value.data, 'base64').toString('utf8');
      const scrubbed = JSON.stringify(scrubPayload(JSON.parse(text)));
      return { ...value, data: Buffer.from(scrubbed).toString('base64') };
    }
    return mapValues(value, (inner, key) => (placeFields.has(key) ? '' : scrubEnvelope(inner)));
  }
  return scrubEnvelope(history);
}

/** Finds the workflow id in a scrubbed history. */
export function findScrubbedWorkflowId(history: Value): string | undefined {
  return /"workflowId":"([^"]+)"/.exec(JSON.stringify(history))?.[1];
}

function mapValues(value: Value, change: (inner: Value, key: string) => Value): Value {
  if (Array.isArray(value)) return value.map((inner: Value) => change(inner, ''));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]: [string, Value]) => [key, change(inner, key)]),
  );
}

/** The encodings `json/plain` and `json/protobuf` in base64, as in the JSON of a history. */
const jsonEncodings = ['json/plain', 'json/protobuf'].map((encoding) =>
  Buffer.from(encoding).toString('base64'),
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
