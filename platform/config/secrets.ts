/** The gateway's own secrets. Keys of others (providers, stores) are with what they open. */
import { z } from 'zod';

/** Words of example files and of templates nobody filled in: a process refuses to run with them. */
const sampleWords =
  /change.?me|secret|password|example|sample|placeholder|your[-_ ]|openssl|[<>${}\s]/i;
const secret = z
  .string()
  .trim()
  .min(32, 'must have at least 32 characters')
  .refine((value) => !sampleWords.test(value), 'must not be a sample value')
  .refine((value) => new Set(value).size >= 10, 'must be random');

/** See the file's head. */
export const secretVariables = {
  STORAGE_SECRET: secret,
  KEY_PEPPER: secret,
  /** Keys that are known under it are accepted too, and known under KEY_PEPPER from then on. */
  KEY_PEPPER_PREVIOUS: secret.optional(),
  WEBHOOK_SECRET: secret,
  /** Callers' webhook secrets are derived from it. */
  WEBHOOK_SIGNING_SECRET: secret,
  ADMIN_API_KEY: secret,
};

/** Each purpose has a secret of its own: what leaks of one opens nothing else. */
export const ownSecrets = [
  'STORAGE_SECRET',
  'KEY_PEPPER',
  'WEBHOOK_SECRET',
  'WEBHOOK_SIGNING_SECRET',
  'ADMIN_API_KEY',
  'KEY_PEPPER_PREVIOUS',
] as const;
