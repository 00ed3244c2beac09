/** ElevenLabs' premade voices: the ids that public code agrees on. */

interface Voice {
  id: string;
  name: string;
  gender: 'female' | 'male' | 'neutral';
}

/** Voices of the sandbox's account. */
const voices: readonly Voice[] = [
  { id: '9BWtsMINqrJLrRacOk9x', name: 'Aria', gender: 'female' },
  { id: 'CwhRBWXzGAHq8TQ4Fs17', name: 'Roger', gender: 'male' },
  { id: 'EXAVITQu4vr4xnSDxMaL', name: 'Sarah', gender: 'female' },
  { id: 'FGY2WhTYpPnrIDTdsKH5', name: 'Laura', gender: 'female' },
  { id: 'IKne3meq5aSn9XLyUdCD', name: 'Charlie', gender: 'male' },
  { id: 'JBFqnCBsd6RMkjVDRZzb', name: 'George', gender: 'male' },
  { id: 'N2lVS1w4EtoT3dr4eOWO', name: 'Callum', gender: 'male' },
  { id: 'SAz9YHcvj6GT2YYXdXww', name: 'River', gender: 'neutral' },
  { id: 'TX3LPaxmHKxFdv7VOQHJ', name: 'Liam', gender: 'male' },
  { id: 'XB0fDUnXU5powFXDhCwa', name: 'Charlotte', gender: 'female' },
  { id: 'Xb7hH8MSUJpSbSDYk0k2', name: 'Alice', gender: 'female' },
  { id: 'XrExE9yKIg1WjnnlVkGX', name: 'Matilda', gender: 'female' },
  { id: 'bIHbv24MWmeRgasZH58o', name: 'Will', gender: 'male' },
  { id: 'cgSgspJ2msm6clMCkdW9', name: 'Jessica', gender: 'female' },
  { id: 'cjVigY5qzO86Huf0OWal', name: 'Eric', gender: 'male' },
  { id: 'iP95p4xoKVk53GoZ742B', name: 'Chris', gender: 'male' },
  { id: 'nPczCjzI2devNBz1zQrb', name: 'Brian', gender: 'male' },
  { id: 'onwK4e9ZLuTAKqWW03F9', name: 'Daniel', gender: 'male' },
  { id: 'pFZP5JQG7iQjIQuC4Bku', name: 'Lily', gender: 'female' },
  { id: 'pqHfZKP75CvOlQylNhV4', name: 'Bill', gender: 'male' },
  { id: '21m00Tcm4TlvDq8ikWAM', name: 'Rachel', gender: 'female' },
  { id: 'pNInz6obpgDQGcFmaJgB', name: 'Adam', gender: 'male' },
  { id: 'ErXwobaYiN019PkySvjV', name: 'Antoni', gender: 'male' },
];

const voiceIds = new Set(voices.map(({ id }) => id));

/** True when the account has this voice. */
export function isVoice(voiceId: string): boolean {
  return voiceIds.has(voiceId);
}

/** The answer of `GET /v1/voices`. */
export function voicesAnswer() {
  return {
    voices: voices.map(({ id, name, gender }) => ({
      voice_id: id,
      name,
      samples: null,
      category: 'premade',
      fine_tuning: { is_allowed_to_fine_tune: true, state: {} },
      labels: { gender, use_case: 'narration' },
      description: null,
      preview_url: null,
      available_for_tiers: [],
      settings: null,
      sharing: null,
      high_quality_base_model_ids: ['eleven_multilingual_v2', 'eleven_v3'],
      safety_control: null,
      permission_on_resource: null,
      is_owner: false,
      is_legacy: false,
      is_mixed: false,
    })),
  };
}
