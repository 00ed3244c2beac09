/**
 * Audio models (speech, dialogue, music, sound effects and transcription) with their limits and
 * prices. The prices are the provider's 2026 list prices in USD; operators can change them in this
 * file.
 */

/**
 * Minimum and maximum of a number, of a string's length in characters, or of a list's length.
 * `default` is the value if a request has none.
 */
export interface Limit {
  min: number;
  max: number;
  default?: number;
}

/** Audio model: a row of the audio model table. */
export interface AudioModel {
  /** Public id of the model, which is also the provider's id. */
  id: string;
  displayName: string;
  provider: string;
  priceUnit: 'character' | 'second' | 'request';
  /** Price of one unit in USD. */
  usd: number;
  /** Limits of the request fields, keyed by field. */
  limits: Readonly<Record<string, Limit>>;
}

const zeroToOneLimit = { min: 0, max: 1, default: 0.5 };
const titleLimit = { min: 1, max: 255 };

/** Audio models, keyed by capability. Each capability has one model. */
export const audioModels = {
  voiceover: {
    id: 'eleven_multilingual_v2',
    displayName: 'Eleven Multilingual v2',
    provider: 'elevenlabs',
    priceUnit: 'character',
    usd: 0.0001,
    limits: {
      text: { min: 1, max: 5000 },
      title: titleLimit,
      stability: zeroToOneLimit,
      similarityBoost: zeroToOneLimit,
    },
  },
  dialogue: {
    id: 'eleven_v3',
    displayName: 'Eleven v3',
    provider: 'elevenlabs',
    priceUnit: 'character',
    usd: 0.0001,
    limits: {
      inputs: { min: 1, max: 100 },
      lineText: { min: 1, max: 5000 },
      totalText: { min: 1, max: 10_000 },
      title: titleLimit,
      stability: zeroToOneLimit,
      similarityBoost: zeroToOneLimit,
    },
  },
  musicPlan: {
    id: 'music_v1',
    displayName: 'Eleven Music',
    provider: 'elevenlabs',
    priceUnit: 'request',
    usd: 0.002,
    limits: { prompt: { min: 1, max: 4100 }, music_length_ms: { min: 3000, max: 600_000 } },
  },
  music: {
    id: 'music_v1',
    displayName: 'Eleven Music',
    provider: 'elevenlabs',
    priceUnit: 'second',
    usd: 0.0125,
    limits: {
      prompt: { min: 1, max: 4100 },
      coverPrompt: { min: 3, max: 2000 },
      durationSeconds: { min: 3, max: 600, default: 30 },
      sectionDurationMs: { min: 3000, max: 120_000 },
    },
  },
  soundEffect: {
    id: 'eleven_text_to_sound_v2',
    displayName: 'Eleven Sound Effects v2',
    provider: 'elevenlabs',
    priceUnit: 'second',
    usd: 0.006,
    limits: {
      prompt: { min: 1, max: 450 },
      durationSeconds: { min: 0.5, max: 30 },
      promptInfluence: { min: 0, max: 1, default: 0.3 },
    },
  },
  transcription: {
    id: 'scribe_v2',
    displayName: 'Scribe v2',
    provider: 'elevenlabs',
    priceUnit: 'second',
    usd: 0.000_061_1,
    limits: {
      /**
       * Duration in seconds of a recording that the gateway has measured. The provider's limit is
       * ten hours.
       */
      durationSeconds: { min: 0.1, max: 36_000 },
      /** Seconds for which credits are reserved if only the provider can measure the recording. */
      unmeasuredSeconds: { min: 0.1, max: 14_400 },
    },
  },
} as const satisfies Record<string, AudioModel>;
