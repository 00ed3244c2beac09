/**
 * Schemas of message parts in OpenAI's chat completions (spec §2.2), with `video_url` as documented
 * by OpenRouter.
 */
import { z } from 'zod';
import type { ContentPart } from '../../chat/chat-body.ts';
import {
  fileIdSchema,
  fileSourceSchema,
  cacheControlField,
  createPartsSchema,
  textSchema,
  withoutNulls,
} from './field-schemas.ts';

const textPart = z.object({
  type: z.literal('text'),
  text: textSchema,
  ...cacheControlField,
});
const refusalPart = z.object({ type: z.literal('refusal'), refusal: textSchema });
const imageUrl = z.object({
  url: fileSourceSchema,
  detail: z.enum(['auto', 'low', 'high', 'original']).optional(),
});
/** Schema of an image part: an HTTPS URL, a base64 data URI, or the id of an uploaded picture. */
const imagePart = z.object({
  type: z.literal('image_url'),
  image_url: z.union([imageUrl, fileSourceSchema.transform((url) => ({ url }))]),
  ...cacheControlField,
});
const audioPart = z.object({
  type: z.literal('input_audio'),
  input_audio: z.object({ data: fileSourceSchema, format: z.enum(['wav', 'mp3']) }),
});
const videoPart = z.object({
  type: z.literal('video_url'),
  video_url: z.object({
    url: fileSourceSchema.regex(
      /^data:video\/[\w.+-]{1,64};base64,/,
      'must be a data URI of a video',
    ),
  }),
});
/** Schema of a file part: a document as a data URI, or the id of an uploaded picture. */
const filePart = z
  .object({
    type: z.literal('file'),
    file: z.object({
      file_id: fileIdSchema.nullish(),
      file_data: fileSourceSchema.startsWith('data:', 'must be a data URI').nullish(),
      filename: z.string().max(255).optional(),
    }),
    ...cacheControlField,
  })
  .refine(({ file }) => (file.file_id == null) !== (file.file_data == null), {
    path: ['file', 'file_data'],
    message: 'is required unless there is a file_id',
  })
  .transform(({ file: { file_id: id, ...file }, cache_control }): ContentPart => {
    const cacheFields = withoutNulls({ cache_control });
    return id == null
      ? { type: 'file', file: withoutNulls(file), ...cacheFields }
      : { type: 'image_url', image_url: { url: id }, ...cacheFields };
  });

/** Schema of content that may contain only text. */
export const textContentSchema = z.union([textSchema, createPartsSchema(textPart).min(1)]);
/** Schema of the content of a user message. */
export const userContentSchema = z.union([
  textSchema,
  createPartsSchema(textPart, imagePart, audioPart, videoPart, filePart).min(1),
]);
/** Schema of the content of an assistant message. */
export const assistantContentSchema = z.union([
  textSchema,
  createPartsSchema(textPart, refusalPart).min(1),
]);
