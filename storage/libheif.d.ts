/** The part of libheif's JavaScript interface that convert-picture.ts uses; the package has no types. */
declare module 'libheif-js/wasm-bundle.js' {
  /** Interleaved pixels, in the memory of the decoder; `stride` is the number of bytes of a row. */
  interface HeifPixels {
    data: Uint8Array;
    width: number;
    height: number;
    stride: number;
  }
  /** Number of an enumeration or pointer of the library. */
  type HeifValue = object;
  interface HeifImage {
    handle: HeifValue;
    get_width: () => number;
    get_height: () => number;
    is_primary: () => boolean;
    has_alpha_channel: () => boolean;
  }
  const libheif: {
    HeifDecoder: new () => { decode: (bytes: Uint8Array) => HeifImage[] };
    heif_colorspace: { heif_colorspace_RGB: HeifValue };
    heif_chroma: Record<'heif_chroma_interleaved_RGB' | 'heif_chroma_interleaved_RGBA', HeifValue>;
    /** Decodes an image; the result has no channels if that fails. */
    heif_js_decode_image2: (
      handle: HeifValue,
      colorspace: HeifValue,
      chroma: HeifValue,
    ) => Promise<{ channels?: HeifPixels[] }>;
  };
  export default libheif;
  export type { HeifPixels };
}
