/** Bytes made by the sandbox, with what a provider says about them. */
export interface Media {
  bytes: Buffer;
  contentType: string;
  /** File name extension without the dot. */
  extension: string;
  width: number;
  height: number;
  /** Of videos only. */
  video?: { durationSeconds: number; fps: number; frames: number };
}

/** An input that could not be fetched or decoded; `field` is the request field that named it. */
export class MediaInputError extends Error {
  override readonly name = 'MediaInputError';
  readonly kind: 'download' | 'decode' | 'too_large';
  readonly field: string;
  readonly url: string;

  constructor(kind: MediaInputError['kind'], { field, url }: MediaInput) {
    super(
      {
        download: `Failed to download the file: ${url.slice(0, 200)}`,
        decode: 'Failed to load the file. It may be corrupt or of an unsupported format.',
        too_large: 'The file, or what would be made of it, is too large.',
      }[kind],
    );
    this.kind = kind;
    this.field = field;
    this.url = url;
  }
}

/** An input file as a request names it. */
export interface MediaInput {
  field: string;
  /** `http(s):` or `data:`. */
  url: string;
}
