/** Answers of providers that are read as far as they can be: transcripts, and lists of rejected fields. */
import { describe, expect, it } from 'vitest';
import { transcriptFormats } from '../../api/endpoints/openai/transcript-formats.ts';
import {
  parseRetryAfter,
  toStatusFailure,
  readInvalidFields,
} from '../../providers/error-responses.ts';
import { parseTranscript } from '../../providers/elevenlabs/results.ts';

const hello = { text: 'hello', start: 0, end: 1, type: 'word' };
const body = { language_code: 'eng', text: 'hello', audio_duration_secs: 2, words: [hello] };
const expected = { text: 'hello', language: 'en', durationSeconds: 2, words: [hello] };

describe('a paid transcript', () => {
  it.each<[string, object, object]>([
    ['a new type of word', { words: [{ ...hello, type: 'laughter' }] }, {}],
    ['a word without type', { words: [{ ...hello, type: undefined }] }, {}],
    [
      'a space of a new type',
      { words: [{ ...hello, text: ' ', type: 'x' }] },
      { words: [{ ...hello, text: ' ', type: 'spacing' }] },
    ],
    ['no language', { language_code: null }, { language: 'und' }],
    ['a number as its language', { language_code: 7 }, { language: 'und' }],
    ['one unreadable word', { words: [null, { start: 1 }, hello] }, {}],
    ['times as text', { words: [{ ...hello, start: 'x' }] }, {}],
    ['no words', { words: null, audio_duration_secs: null }, { words: [], durationSeconds: 0 }],
    ['a negative length', { audio_duration_secs: -1 }, { durationSeconds: 1 }],
  ])('with %s is kept', (_name, changed, differs) => {
    expect(parseTranscript({ ...body, ...changed })).toEqual({ ...expected, ...differs });
  });

  it('without text is unusable', () => {
    expect(parseTranscript({ ...body, text: null })).toBeNull();
  });

  it('as WebVTT has escaped text, in which no empty line ends a cue', () => {
    const word = { ...hello, text: 'x --> <b> & y\n\nz' };
    const vtt = transcriptFormats.vtt.show({ ...expected, words: [word] });
    expect(vtt).toBe('WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nx --&gt; &lt;b&gt; &amp; y z\n\n');
  });
});

it.each<[unknown, string]>([
  [
    [{ loc: ['body', 'image_urls', 0], type: 'image_too_small', msg: 'secret' }],
    ' (image_urls.0: image is too small)',
  ],
  [[{ loc: ['body', 'image_urls'], type: 'new_type', msg: 'secret' }], ' (image_urls)'],
  [
    [
      { loc: ['body', 'duration'], type: 'enum' },
      { loc: ['body', 'seed'], type: 'missing' },
    ],
    ' (duration: is not an allowed value; seed: is required)',
  ],
  [[{ loc: ['body'], type: 'file_download_error' }], ' (file cannot be downloaded)'],
  [[{ loc: ['body', 'a b\n<script>'], type: 'constructor' }], ''],
  [[{ type: 'x' }], ''],
  ['text', ''],
])('the rejection %j names the fields and known reasons', (detail, suffix) => {
  const { fields } = readInvalidFields({ detail });
  const failure = toStatusFailure({ status: 422, headers: {} }, { fields, isOwnError: true });
  expect(failure.message).toBe(`the provider rejected the input${suffix}`);
});

it.each<[string | undefined, number | undefined]>([
  ['7', 7000],
  ['0', 0],
  ['3600', 3_600_000],
  ['259200', 3_600_000],
  ['9'.repeat(400), undefined],
  ['Fri, 01 Jan 2100 00:00:00 GMT', 3_600_000],
  ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
  ['soon', undefined],
  [undefined, undefined],
])('Retry-After %s is obeyed for at most an hour', (header, waitMs) => {
  expect(parseRetryAfter(header)).toBe(waitMs);
});
