/** Failure to download the output of a provider, or to store it. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
  /**
   * Whether a retry can store the output. False if the provider's bytes are lost, because a second
   * call to the provider would cost twice.
   */
  readonly retryable: boolean;
  /** True if the download from the provider failed; false if the gateway's own storage failed. */
  readonly isDownload: boolean;

  constructor(
    message: string,
    options: { retryable: boolean; isDownload?: boolean; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
    this.isDownload = options.isDownload ?? false;
  }
}
