/** Answers of providers that are read as far as they can be: transcripts, and lists of rejected fields. */
import { describe, expect, it } from 'vitest';
import { transcriptFormats } from '../../api/endpoints/openai/transcript-formats.ts';
import {
  parseRetryAfter,
  toStatusFailure,
  readInvalidFields,
} from '../../providers/error-responses.ts';
import { parseTranscript } from '../../providers/elevenlabs/results.ts';
import elevenlabs from '../../providers/elevenlabs/index.ts';
import fal from '../../providers/fal/index.ts';
import openai from '../../providers/openai/index.ts';
import type { Config } from '../../platform/config.ts';
import { during } from '../harness/during.ts';
import { startHttpServer } from '../harness/http-server.ts';

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
  const failure = toStatusFailure(
    { status: 422, headers: {} },
    { fields, errorType: null, isOwnError: true },
  );
  expect(failure.message).toBe(`the provider rejected the input${suffix}`);
});

let response = { status: 500, headers: {}, body: {} };
const server = during(() =>
  startHttpServer((_request, answer) => {
    answer.writeHead(response.status, response.headers).end(JSON.stringify(response.body));
  }),
);
const listed = (type: string) => ({ detail: [{ loc: ['body'], type, msg: 'secret' }] });

it.each<[typeof fal, number, object, string, string | null, object?]>([
  [fal, 503, {}, 'not_accepted', 'runner_down', { 'x-fal-error-type': 'runner_down' }],
  [fal, 500, { detail: 'x', error_type: 'internal_error' }, 'failed', 'internal_error'],
  [fal, 422, listed('a_new_type'), 'rejected', 'a_new_type'],
  [fal, 422, listed('content_policy_violation'), 'content_policy', 'content_policy_violation'],
  [fal, 403, { detail: 'secret' }, 'misconfigured', null],
  [fal, 502, {}, 'unknown', null],
  [fal, 422, listed('<b>\u202e\n\u0000a\u001b[31m</b>'), 'rejected', 'ba31m/b'],
  [fal, 422, listed('é\n'), 'rejected', null],
  [fal, 422, listed('x'.repeat(5000)), 'rejected', 'x'.repeat(100)],
  [openai, 400, { error: { code: 'a_code', type: 'a_type' } }, 'rejected', 'a_code'],
  [openai, 500, { error: { code: null, type: 'server_error' } }, 'failed', 'server_error'],
  [openai, 400, { error: { code: 'moderation_blocked' } }, 'content_policy', 'moderation_blocked'],
  [openai, 429, { error: {} }, 'not_accepted', null],
  [elevenlabs, 401, { detail: { status: 'quota_exceeded' } }, 'misconfigured', 'quota_exceeded'],
  [elevenlabs, 400, { detail: { code: 'bad_prompt' } }, 'content_policy', 'bad_prompt'],
  [elevenlabs, 500, { detail: { status: 'oops' } }, 'failed', 'oops'],
  [elevenlabs, 422, listed('missing'), 'rejected', 'missing'],
])(
  'the failure of a call with status $1 has the type $4',
  async (definition, status, sentBody, kind, providerErrorType, headers = {}) => {
    response = { status, headers, body: sentBody };
    const prefix = { fal: 'FAL_', openai: 'OPENAI_IMAGES_', elevenlabs: 'ELEVENLABS_' }[
      definition.name
    ];
    const url = definition === fal ? 'FAL_QUEUE_URL' : `${prefix}BASE_URL`;
    const variables = { [definition.key]: 'a-key-of-fal', [url]: server.url };
    const config = { PROVIDER_VARIABLES: variables } as unknown as Config;
    const failure: unknown = await definition
      .create(config, {} as never)
      .submit({
        providerEndpoint: definition === elevenlabs ? 'music' : 'images/generations',
        input: { prompt: 'a tree' },
        notificationUrl: '',
        idempotencyKey: 'key',
        signal: AbortSignal.timeout(20_000),
      })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ kind, providerErrorType });
    expect((failure as Error).message).not.toContain('secret');
  },
);

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
