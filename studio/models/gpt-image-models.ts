/**
 * GPT Image 2 and 2.5 models. Each has two routes: the first is fal, whose parameters the
 * specification uses; the second is OpenAI, which is called only if fal certainly did not accept
 * the call.
 */
import {
  allFormats,
  background,
  imageUrls,
  numImages,
  outputFormat,
  defaultEdit,
  type ImageModel,
  type ImagePrice,
  type ImageRoute,
} from './image-model.ts';
import {
  seedRule,
  type CatalogRow,
  type ParameterRules,
  type SizeRule,
} from './model-parameters.ts';

const customSizePixelsMax = 8_294_400;
/** Limits of a custom image size. They are the same for fal and OpenAI. */
const customSize: SizeRule = {
  multipleOf: 16,
  edgeMax: 3840,
  pixelsMin: 655_360,
  pixelsMax: customSizePixelsMax,
  ratioMax: 3,
};

const generateParameters: ParameterRules = {
  numImages,
  outputFormat,
  quality: { oneOf: ['auto', 'low', 'medium', 'high'], default: 'medium' },
  background,
  seed: seedRule,
  imageSize: { size: customSize, default: 'landscape_4_3' },
  imageUrls,
};

const editParameters: ParameterRules = {
  ...defaultEdit,
  quality: { oneOf: ['low', 'medium', 'high'], default: 'medium' },
  background,
  maskUrl: {},
};

/**
 * OpenAI sizes, keyed by the names of `imageSize`. OpenAI supports no size below 655,360 pixels, so
 * a smaller named size is sent as the next larger size.
 */
const openaiSizes = {
  square_hd: '1024x1024',
  square: '1024x1024',
  portrait_4_3: '768x1024',
  portrait_16_9: '720x1280',
  landscape_4_3: '1024x768',
  landscape_16_9: '1280x720',
} as const;

function createFalRoute(
  operations: { generate: string; edit: string },
  imagesPerCallMax: number,
): ImageRoute {
  return {
    provider: 'fal',
    ...operations,
    omitFields: ['seed'],
    imagesPerCallMax,
    nativeFormats: allFormats,
  };
}

/**
 * Creates the route to OpenAI's Images API. The provider's adapter downloads `image_urls` and
 * `mask_url` and sends them as files.
 */
function createOpenaiRoute(model: string): ImageRoute {
  return {
    provider: 'openai',
    generate: 'images/generations',
    edit: 'images/edits',
    omitFields: ['seed'],
    imagesPerCallMax: 10,
    nativeFormats: allFormats,
    rename: { numImages: 'n', imageSize: 'size' },
    values: { imageSize: openaiSizes },
    sizeAsText: true,
    constantFields: { model },
  };
}

interface GptImageModel extends CatalogRow {
  upstream: string;
  fal: { generate: string; edit: string };
  imagesPerCallMax: number;
  usdByQuality: { low: number; medium: number; high: number };
}

function createRow({
  upstream,
  fal,
  imagesPerCallMax,
  usdByQuality,
  ...row
}: GptImageModel): ImageModel {
  const price: ImagePrice = {
    // If the quality is `auto`, the provider may choose the most expensive one.
    usd: usdByQuality.high,
    usdByField: { quality: usdByQuality },
    includedPixels: 1024 * 1024,
  };
  return {
    ...row,
    generate: generateParameters,
    edit: editParameters,
    routes: [createFalRoute(fal, imagesPerCallMax), createOpenaiRoute(upstream)],
    price,
    pixelsMax: customSizePixelsMax,
  };
}

/** GPT Image models, in the order of the spec. */
export const gptImageModels: readonly ImageModel[] = [
  createRow({
    id: 'alpha-image-2',
    displayName: 'Alpha Image 2',
    servedBy: 'GPT Image 2',
    typicalSeconds: 40,
    upstream: 'gpt-image-2',
    fal: { generate: 'openai/gpt-image-2', edit: 'openai/gpt-image-2/edit' },
    imagesPerCallMax: 4,
    usdByQuality: { low: 0.01, medium: 0.06, high: 0.22 },
  }),
  createRow({
    id: 'alpha-image-2.5-flare',
    displayName: 'Alpha Image 2.5 Flare',
    servedBy: 'GPT Image 2.5 Flare',
    typicalSeconds: 20,
    upstream: 'gpt-image-2.5-flare',
    fal: {
      generate: 'openai/gpt-image-2.5/flare/text-to-image',
      edit: 'openai/gpt-image-2.5/flare/edit',
    },
    imagesPerCallMax: 10,
    usdByQuality: { low: 0.008, medium: 0.04, high: 0.15 },
  }),
  createRow({
    id: 'alpha-image-2.5-sunburst',
    displayName: 'Alpha Image 2.5 Sunburst',
    servedBy: 'GPT Image 2.5 Sunburst',
    typicalSeconds: 60,
    upstream: 'gpt-image-2.5-sunburst',
    fal: {
      generate: 'openai/gpt-image-2.5/sunburst/text-to-image',
      edit: 'openai/gpt-image-2.5/sunburst/edit',
    },
    imagesPerCallMax: 10,
    usdByQuality: { low: 0.015, medium: 0.08, high: 0.25 },
  }),
];
