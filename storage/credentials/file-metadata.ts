/** Metadata of a file, as the readers of the formats return it. */

/** Replacement of the bytes from `start` (included) to `end` (excluded). */
export interface Edit {
  start: number;
  end: number;
  bytes: Buffer;
}

/** Mark in the two forms that formats take: an XMP packet, or names and values. */
export interface WrittenMark {
  xmp: string;
  properties: readonly (readonly [name: string, value: string])[];
}

export interface FileMetadata {
  /** True if the file has a C2PA manifest, which a change of the file would invalidate. */
  isSigned: boolean;
  /** XMP packet of the file; null if it has none. */
  packet: string | null;
  /** Text of other metadata that may contain a mark. */
  otherText?: string;
  /** Returns the edits that write a mark, in the order of the file; null if none can be written. */
  write: (mark: WrittenMark) => Edit[] | null;
}
