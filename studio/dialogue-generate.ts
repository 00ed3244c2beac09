/** POST /studio/dialogue/generate (spec §4.8): lines in several voices, stitched into one recording. */
import { z } from 'zod';
import { audioModels } from '../catalog/audio-models.ts';
import { findVoice } from '../catalog/voices.ts';
import { assert } from '../domain/assert.ts';
import { charactersOf } from '../domain/request-words.ts';
import { asyncFlag, fitsIntoPlan, presetNumberOf, textOf, voiceName } from './audio-fields.ts';
import { presentRecording, recordingData, recordingOf } from './audio-presentation.ts';
import { defineCapability, type DraftCall } from './capability.ts';
import { chunksOf, type SpokenLine } from './dialogue-chunks.ts';
import { publishAudioModel } from './published-models.ts';

const model = audioModels.dialogue;
const { limits } = model;

const inputs = z
  .array(z.strictObject({ text: textOf(limits.lineText), voiceId: voiceName }))
  .min(limits.inputs.min)
  .max(limits.inputs.max)
  .refine((lines) => lengthOf(lines) <= limits.totalText.max, {
    error: `must have at most ${limits.totalText.max} characters in all`,
    abort: true,
  })
  .refine(fitsIntoPlan, 'is too long in bytes: send it in two dialogues');

const request = z.strictObject({
  inputs,
  title: textOf(limits.title),
  stability: presetNumberOf(limits.stability),
  similarityBoost: presetNumberOf(limits.similarityBoost),
  async: asyncFlag,
});

type DialogueRequest = z.infer<typeof request>;

/** Speaks a dialogue. */
export const dialogueGenerate = defineCapability({
  type: 'dialogueGenerate',
  path: '/studio/dialogue/generate',
  medium: 'audio',
  summary: 'Turn a dialogue into speech with several voices',
  request,
  example: {
    title: 'At the harbour',
    inputs: [
      { voiceId: 'rachel', text: 'Is the boat in yet?' },
      { voiceId: 'george', text: 'Since this morning.' },
    ],
  },
  data: z.object({
    ...recordingData,
    title: z.string(),
    model: z.string(),
    dialogueLines: z.array(z.object({ line: z.int(), voice: z.string(), text: z.string() })),
    voicesUsed: z.array(z.string()),
    totalLines: z.int(),
    totalTextLength: z.int(),
    metadata: z.object({
      stability: z.number(),
      similarityBoost: z.number(),
      chunks: z.int().meta({ description: 'Requests to the provider that the dialogue took.' }),
    }),
  }),
  models: [publishAudioModel(model, { of: 'inputs.text', default: null })],
  plan(body) {
    const calls = chunksOf(body.inputs.map(spokenLine)).map((lines) => callOf(lines, body));
    return {
      model: model.id,
      calls,
      assembly: calls.length > 1 ? 'concat_audio' : null,
    };
  },
  present(job) {
    const body = request.parse(job.request);
    const { stability, similarityBoost } = body;
    return {
      ...presentRecording(job, recordingOf(job)),
      title: body.title,
      model: job.model,
      dialogueLines: body.inputs.map(({ text, voiceId }, index) => ({
        line: index + 1,
        voice: voiceId,
        text,
      })),
      voicesUsed: [...new Set(body.inputs.map((line) => line.voiceId))],
      totalLines: body.inputs.length,
      totalTextLength: lengthOf(body.inputs),
      metadata: {
        stability,
        similarityBoost,
        chunks: chunksOf(body.inputs.map(spokenLine)).length,
      },
    };
  },
});

function callOf(lines: SpokenLine[], body: DialogueRequest): DraftCall {
  return {
    // Half a dialogue is none.
    required: true,
    output: { medium: 'audio', format: null },
    meter: 'character',
    quantity: lengthOf(lines),
    unitPriceUsd: model.usd,
    routes: [
      {
        provider: model.provider,
        operation: 'text-to-dialogue',
        input: {
          inputs: lines,
          model_id: model.id,
          settings: { stability: body.stability, similarity: body.similarityBoost },
        },
      },
    ],
  };
}

function spokenLine({ text, voiceId }: DialogueRequest['inputs'][number]): SpokenLine {
  const voice = findVoice(voiceId);
  assert(voice, 'the schema admits only voices of the list');
  return { text, voice_id: voice.providerVoiceId };
}

function lengthOf(lines: readonly { text: string }[]): number {
  return lines.reduce((sum, { text }) => sum + charactersOf(text), 0);
}
