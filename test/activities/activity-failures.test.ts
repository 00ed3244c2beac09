/** The attempt after which a failure of an activity is not retried. */
import { expect, it } from 'vitest';
import { toApplicationFailure } from '../../activities/activity-failures.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { StorageFailure } from '../../storage/storage.ts';

const rejection = new ProviderFailure('not_accepted', 'busy');
const unreachable = new ProviderFailure('unreachable', 'no response');
const download = new StorageFailure('not downloaded', { retryable: true, isDownload: true });
const storage = new StorageFailure('not stored', { retryable: true });
const lostBytes = new StorageFailure('not stored', { retryable: false });

it.each([
  ['rejected by the provider', rejection, { attempt: 1, isFinal: false }],
  ['rejected by the provider', rejection, { attempt: 2, isFinal: true }],
  ['without a response of the provider', unreachable, { attempt: 5, isFinal: false }],
  ['without a response of the provider', unreachable, { attempt: 6, isFinal: true }],
  ['whose download failed', download, { attempt: 5, isFinal: false }],
  ['whose download failed', download, { attempt: 6, isFinal: true }],
  ['that the storage did not accept', storage, { attempt: 1000, isFinal: false }],
  ['whose bytes cannot be read again', lostBytes, { attempt: 0, isFinal: true }],
])(
  'a failed attempt %s (%s) is retried as its attempt allows: $attempt',
  (_name, error, { attempt, isFinal }) => {
    expect(toApplicationFailure(error, { attempt, submitAttemptsMax: 2 })).toMatchObject({
      nonRetryable: isFinal,
    });
  },
);
