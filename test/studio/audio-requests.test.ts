/**
 * Each limit of the audio requests at its ends and beyond; the price and the provider input of a
 * plan.
 */
import { describe, expect, it } from 'vitest';
import { audioModels } from '../../studio/models/audio-models.ts';
import { defaultVoiceName, voices } from '../../studio/models/voices.ts';
import type { Capability } from '../../studio/capabilities/capability.ts';
import { audioTranscribe } from '../../studio/capabilities/audio-transcribe.ts';
import { dialogueGenerate } from '../../studio/capabilities/dialogue-generate.ts';
import { musicGenerate } from '../../studio/capabilities/music-generate.ts';
import { musicPlan } from '../../studio/capabilities/music-plan.ts';
import { sfxGenerate } from '../../studio/capabilities/sfx-generate.ts';
import { voiceoverGenerate } from '../../studio/capabilities/voiceover-generate.ts';
import { planRequest, catchRejection } from '../harness/capability.ts';

const text = (length: number, character = 'x'): string => character.repeat(length);
const section = (fields: object = {}) => ({
  section_name: 'Verse',
  positive_local_styles: ['calm'],
  negative_local_styles: [],
  duration_ms: 10_000,
  lines: ['la la'],
  ...fields,
});
const plan = (fields: object = {}) => ({
  positive_global_styles: ['pop'],
  negative_global_styles: [],
  sections: [section()],
  ...fields,
});
const lines = (count: number, length = 10, character = 'x') =>
  Array.from({ length: count }, () => ({ text: text(length, character), voiceId: 'adam' }));

const voiceover = { text: 'Hello', title: 'T' };
const dialogue = { title: 'T', inputs: lines(1) };
const song = { prompt: 'a song' };
const sound = { prompt: 'a door' };

const sections = (count: number, fields: object = {}) =>
  plan({ sections: Array.from({ length: count }, () => section(fields)) });
/** The most lines of a section, of the most characters. */
const longest = { lines: Array.from({ length: 30 }, () => text(200)) };

type Rejected = [fields: object, path: string];
const table: [Capability, base: object, accepted: object[], rejected: Rejected[]][] = [
  [
    voiceoverGenerate,
    voiceover,
    [{ text: 'x' }],
    [
      [{ text: ' \n ' }, 'text'],
      [{ speed: 1 }, 'speed'],
    ],
  ],
  [
    dialogueGenerate,
    dialogue,
    [{ inputs: lines(100) }, { inputs: lines(2, 5000) }],
    [
      [{ inputs: lines(101) }, 'inputs'],
      [{ inputs: [{ text: '', voiceId: 'adam' }] }, 'inputs.0.text'],
      [{ inputs: lines(1, 5001) }, 'inputs.0.text'],
      [{ inputs: [...lines(2, 5000), ...lines(1, 1)] }, 'inputs'],
      [{ inputs: lines(2, 5000, '言') }, 'inputs'],
      [{ inputs: [{ text: 'a', voiceId: 'nobody' }] }, 'inputs.0.voiceId'],
      [{ inputs: [{ text: 'a', voiceId: 'adam', mood: 'b' }] }, 'inputs.0.mood'],
    ],
  ],
  [
    musicPlan,
    song,
    [
      { prompt: text(4100) },
      { music_length_ms: 3000 },
      { music_length_ms: 600_000 },
      { source_composition_plan: plan() },
      { model_id: 'music_v1' },
    ],
    [
      [{ prompt: text(4101) }, 'prompt'],
      [{ music_length_ms: 2999 }, 'music_length_ms'],
      [{ music_length_ms: 600_001 }, 'music_length_ms'],
      [{ music_length_ms: 3000.5 }, 'music_length_ms'],
      [{ source_composition_plan: {} }, 'source_composition_plan.sections'],
      [{ model_id: 'music_v2' }, 'model_id'],
      [{ async: 'yes' }, 'async'],
    ],
  ],
  [
    musicGenerate,
    song,
    [
      { durationSeconds: 3 },
      { durationSeconds: 600 },
      { coverPrompt: 'sea' },
      { coverPrompt: text(2000) },
      { mode: 'audio-only', force_instrumental: true },
      { plan: plan(), composition_plan: plan() },
      { plan: plan(), durationSeconds: 10 },
      { plan: sections(1, { duration_ms: 3000 }) },
      { plan: sections(5, { duration_ms: 120_000 }) },
      { plan: sections(1, longest) },
    ],
    [
      [{ durationSeconds: 2.9 }, 'durationSeconds'],
      [{ durationSeconds: 600.1 }, 'durationSeconds'],
      [{ coverPrompt: 'se' }, 'coverPrompt'],
      [{ coverPrompt: text(2001) }, 'coverPrompt'],
      [
        { plan: plan(), composition_plan: plan({ positive_global_styles: ['rock'] }) },
        'composition_plan',
      ],
      [{ plan: plan(), durationSeconds: 11 }, 'durationSeconds'],
      [{ plan: plan(), force_instrumental: true }, 'force_instrumental'],
      [{ plan: plan({ sections: [] }) }, 'plan.sections'],
      [{ plan: sections(1, { duration_ms: 2999 }) }, 'plan.sections.0.duration_ms'],
      [{ plan: sections(1, { duration_ms: 120_001 }) }, 'plan.sections.0.duration_ms'],
      [{ plan: sections(6, { duration_ms: 110_000 }) }, 'plan'],
      [{ plan: sections(1, { lines: [text(201)] }) }, 'plan.sections.0.lines.0'],
      [{ plan: sections(6, longest) }, 'plan'],
      [{ model_id: 'music_v9' }, 'model_id'],
    ],
  ],
  [
    sfxGenerate,
    sound,
    [
      { prompt: text(450) },
      { durationSeconds: 0.5 },
      { durationSeconds: 30 },
      { promptInfluence: 0 },
      { promptInfluence: 1, loop: true },
    ],
    [
      [{ prompt: text(451) }, 'prompt'],
      [{ durationSeconds: 0.49 }, 'durationSeconds'],
      [{ durationSeconds: 30.1 }, 'durationSeconds'],
      [{ promptInfluence: 1.1 }, 'promptInfluence'],
      [{ loop: 'yes' }, 'loop'],
    ],
  ],
  [
    audioTranscribe,
    { audioUrl: 'https://example.com/a.mp3' },
    [{ language: 'en' }, { language: 'deu' }, { language: 'pt-BR' }, { fileName: text(255) }],
    [
      [{ audioUrl: 'ftp://example.com/a' }, 'audioUrl'],
      [{ language: 'e' }, 'language'],
      [{ language: 'english' }, 'language'],
      [{ fileName: text(256) }, 'fileName'],
      [{ webhook: true }, 'webhook'],
    ],
  ],
];

describe.each(
  table.map(([capability, ...rest]) => [capability.path, capability, ...rest] as const),
)('%s', (_path, capability, base, accepted, rejected) => {
  it.each(accepted.map((fields) => [brief(fields), fields] as const))(
    'accepts %s',
    (_name, fields) => {
      expect(planRequest(capability, { ...base, ...fields }).calls).not.toEqual([]);
    },
  );
  it.each(rejected.map(([fields, path]) => [brief(fields), fields, path] as const))(
    'rejects %s',
    (_name, fields, path) => {
      const { details } = catchRejection(capability, { ...base, ...fields });
      expect(details?.[0]?.path).toBe(path);
    },
  );
});

describe('a recording', () => {
  const measured = (durationSeconds: number) =>
    planRequest(audioTranscribe, { fileId: `file_${'0'.repeat(32)}` }).recordings?.complete([
      {
        kind: 'file',
        storageKey: 'k/a.mp3',
        durationSeconds,
        sizeBytes: 1000,
        type: { extension: 'mp3', contentType: 'audio/mpeg' },
      },
    ]);
  it.each([0.1, 1, 59.2, 36_000])('of %d seconds is priced by started seconds', (seconds) => {
    expect(measured(seconds)?.calls[0]?.quantity).toBe(Math.ceil(seconds));
  });
  it.each([0.05, 36_000.5])('of %d seconds is rejected', (seconds) => {
    expect(() => measured(seconds)).toThrow('must last');
  });
});

describe('the prices of the audio models', () => {
  const prices = Object.entries(audioModels).map(([name, model]) => [name, model] as const);
  it.each(prices)('%s: are whole micro-credits above 0', (_name, { usd }) => {
    const micro = (usd / 0.01) * 1e6;
    expect(micro).toBeGreaterThan(0);
    expect(Math.abs(micro - Math.round(micro))).toBeLessThan(1e-6);
  });

  it.each([
    ['voiceover', voiceoverGenerate, { ...voiceover, text: text(1234, '🎈') }, 'character', 1234],
    ['sound of a length', sfxGenerate, { ...sound, durationSeconds: 4.2 }, 'second', 5],
    ['sound of any length', sfxGenerate, sound, 'second', 30],
    ['song', musicGenerate, { ...song, durationSeconds: 12.2 }, 'second', 13],
    ['song of no length', musicGenerate, song, 'second', 30],
    ['song of a plan', musicGenerate, { plan: plan() }, 'second', 10],
  ] as const)('%s: count the documented unit', (_name, capability, body, meter, quantity) => {
    expect(planRequest(capability, body).calls[0]).toMatchObject({ meter, quantity });
  });

  it('a dialogue: count its characters, however it is split', () => {
    const { calls } = planRequest(dialogueGenerate, { title: 'T', inputs: lines(7, 1000) });
    expect(calls.map((call) => call.quantity)).toEqual([2000, 2000, 2000, 1000]);
    expect(calls.every((call) => call.required && call.meter === 'character')).toBe(true);
  });
});

it('the prompt for the cover of a song is not cut inside a character', () => {
  const [, cover] = planRequest(musicGenerate, { prompt: `x${text(2000, '🎈')}` }).calls;
  expect(cover?.routes[0]?.input['prompt']).toMatch(/^[^\ud800-\udfff]+$/u);
});

it('each of the 23 voices is a different voice of the provider; one of them is the default', () => {
  expect(new Set(voices.map(({ providerVoiceId }) => providerVoiceId)).size).toBe(23);
  expect(voices.map(({ name }) => name)).toContain(defaultVoiceName);
});

/** Returns a body for the title of a test. */
function brief(fields: object): string {
  const json = JSON.stringify(fields, (_key, value: unknown) => value ?? 'absent');
  return json.length > 70 ? `${json.slice(0, 70)}… (${json.length})` : json;
}
