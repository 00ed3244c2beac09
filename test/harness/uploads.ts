/** Uploads files to signed URLs, and makes forms with files. */
import { expect } from 'vitest';
import type { UploadUrl } from '../../api/endpoints/upload-urls.ts';
import type { TestGateway } from './gateway.ts';

/** Creates an upload URL with the key of a caller, by default of the gateway’s first one. */
export async function signUpload(
  gateway: TestGateway,
  body: object = {},
  key = gateway.caller.key,
): Promise<UploadUrl> {
  const answer = await gateway.call<UploadUrl>('/api/v1/storage/upload-url', { body, key });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}

/** Sends a file to an upload URL. */
export const putFile = ({ uploadUrl, headers }: UploadUrl, bytes: Uint8Array) =>
  fetch(uploadUrl, { method: 'PUT', headers, body: new Uint8Array(bytes) });

/** Creates an upload URL and sends a file to it. */
export async function uploadFile(
  gateway: TestGateway,
  bytes: Uint8Array,
  body: object = {},
  key = gateway.caller.key,
): Promise<UploadUrl> {
  const signed = await signUpload(gateway, body, key);
  expect((await putFile(signed, bytes)).status).toBe(200);
  return signed;
}

/** Returns a form with these fields and files, in their order. */
export function makeForm(parts: Record<string, string | File>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(parts)) form.append(name, value);
  return form;
}
