/** Error of the storage while an artifact is written or read. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
  /**
   * False if the provider's bytes are lost, because a repeated call would be paid for a second
   * time.
   */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
  }
}
