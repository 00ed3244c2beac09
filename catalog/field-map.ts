/** How our request fields are said in a provider's words: data, read by studio/provider-input.ts. */

type Words = readonly string[];

/** Maps over request fields; each entry is by our field's name. */
export interface FieldMap {
  /** Our field → the provider's field; a field not named here keeps its name. */
  rename?: Readonly<Record<string, string>>;
  /** Our value → the provider's value. */
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Values that are said by leaving the field out. */
  omit?: Readonly<Record<string, Words>>;
  /** Fields that the spec allows and this upstream does not know: `seed`. */
  drop?: Words;
  /** Numbers that the provider takes as text, with what stands behind the digits: `'8s'`. */
  asText?: Readonly<Record<string, string>>;
  /** `{width, height}` is said as `'1536x1024'`. */
  sizeAsText?: true;
  /** Sent with every request, in the provider's own words. */
  fixed?: Readonly<Record<string, string | number | boolean>>;
}
