/** Failure to write or read an artifact. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
  /** False if the provider's bytes are lost: repeating the call would pay for it twice. */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
  }
}
