/** The part of libheif's JavaScript interface that convert-picture.ts uses; the package has no types. */
declare module 'libheif-js/wasm-bundle.js' {
  interface HeifPicture {
    data: Uint8ClampedArray;
    width: number;
    height: number;
  }
  interface HeifImage {
    get_width: () => number;
    get_height: () => number;
    is_primary: () => boolean;
    has_alpha_channel: () => boolean;
    /** Writes RGBA pixels into `target`; calls `callback` with null if that fails. */
    display: (target: HeifPicture, callback: (shown: HeifPicture | null) => void) => void;
  }
  const libheif: { HeifDecoder: new () => { decode: (bytes: Uint8Array) => HeifImage[] } };
  export default libheif;
}
