/**
 * Answers in the format of OpenAI's chat completions that differ from OpenAI's documentation, as public bug reports show
 * them. A prompt plays one with `[[answer:name]]`.
 */
import { event, type OddAnswer } from './odd-answers.ts';
import {
  oddCalls,
  done,
  usage,
  chunk,
  end,
  text,
  hello,
  piece,
  callA,
  whole,
  wholeCall,
  wholeCalls,
  both,
} from './odd-openai-calls.ts';

const error = (fields: object): string => event({ error: { message: 'Odd failure', ...fields } });
const wholeError = (fields: object): string =>
  JSON.stringify({ error: { message: 'Odd failure', ...fields } });

/** Finish reasons that contradict the answer, or come at another place. */
const endings: Record<string, OddAnswer> = {
  'stop-beside-a-call': {
    stream: text('hello') + callA({ index: 0, id: 'c0' }) + end('stop'),
    whole: wholeCalls(both, 'stop'),
  },
  'function-call-beside-a-call': {
    stream: callA({ index: 0, id: 'c0' }) + end('function_call'),
    whole: wholeCalls(both, 'function_call'),
  },
  'no-finish-beside-a-call': {
    stream: callA({ index: 0, id: 'c0' }) + done,
    whole: wholeCalls(both, null),
  },
  'no-finish': {
    stream: hello + done,
    whole: whole({ role: 'assistant', content: 'hello' }, null),
  },
  'tool-calls-without-a-call': {
    stream: hello + end('tool_calls'),
    whole: whole({ role: 'assistant', content: 'hello', tool_calls: [] }, 'tool_calls'),
  },
  'call-cut-off': {
    stream: piece({ index: 0, id: 'c0' }, 'a', '{"x":"a') + end('length'),
    whole: wholeCalls([wholeCall({ id: 'c0' }, 'a', '{"x":"a')], 'length'),
  },
  'empty-finish-in-each-chunk': {
    stream: chunk({ content: 'hel' }, '') + chunk({ content: 'lo' }, '') + end('stop'),
  },
  'finish-before-the-end': {
    stream: chunk({ content: 'hel' }, 'stop') + text('lo') + chunk({}, null, { usage }) + done,
  },
  'finish-twice': { stream: callA({ index: 0, id: 'c0' }) + chunk({}, 'tool_calls') + end('stop') },
  'finish-max-tokens': {
    stream: hello + end('MAX_TOKENS'),
    whole: whole({ content: 'hello' }, 'model_length'),
  },
  'finish-end-turn': { stream: hello + end('end_turn'), whole: whole({ content: 'hello' }, 'eos') },
  'finish-sensitive': {
    stream: hello + end('sensitive'),
    whole: whole({ content: 'hello' }, 'SAFETY'),
  },
  'finish-filtered-without-output': {
    stream: end('content_filter'),
    whole: whole({ content: null }, 'content_filter'),
  },
  refusal: {
    stream:
      chunk({ role: 'assistant', content: null, refusal: '' }) +
      chunk({ refusal: 'I will ' }) +
      chunk({ refusal: 'not' }) +
      end('stop'),
    whole: whole({ role: 'assistant', content: null, refusal: 'I will not' }, 'stop'),
  },
  'reasoning-in-other-fields': {
    stream:
      chunk({ reasoning: 'I think', content: '' }) +
      chunk({ reasoning_text: ', so' }) +
      chunk({ thinking: ' I am' }) +
      hello +
      end('stop'),
    whole: whole({ role: 'assistant', content: 'hello', reasoning: 'I think, so I am' }, 'stop'),
  },
};

/** Streams that are framed, compressed or ended in other ways. */
const frames: Record<string, OddAnswer> = {
  'odd-frames': {
    stream:
      ': comment\n\ndata:\n\ndata: null\n\n' +
      text('hel') +
      'data: : keepalive\n\ndata: ping\n\nevent: ping\ndata: {}\n\ndata: []\n\ndata: 7\n\ndata: "x"\n\nid: 5\nretry: 9\n\n' +
      text('lo') +
      end('stop'),
  },
  'after-the-end': {
    stream:
      hello +
      chunk({}, 'stop', { usage }) +
      'data: [DONE] \n\ndata: [DONE]\n\ndata: {broken\n\n' +
      error({ code: 500 }) +
      text('more') +
      'event: error\ndata: x\n\n',
  },
  'open-after-the-end': { stream: hello + end('stop'), staysOpen: true },
  'crlf-and-byte-order-mark': { stream: '\uFEFF' + (hello + end('stop')).replaceAll('\n', '\r\n') },
  'data-on-several-lines': {
    stream: (hello + end('stop')).replaceAll(',"choices"', '\ndata: ,"choices"'),
  },
  'no-end-mark': { stream: hello + chunk({}, 'stop', { usage }) },
  'no-blank-line-at-the-end': { stream: hello + chunk({}, 'stop', { usage }).trimEnd() },
  'no-choices': {
    stream:
      event({ choices: [], prompt_filter_results: [] }) +
      event({ choices: null }) +
      event({ choices: [{}] }) +
      event({ choices: [{ index: 0, delta: null }] }) +
      hello +
      end('stop'),
  },
  'repeated-roles': {
    stream:
      chunk({ role: 'assistant' }) +
      chunk({ role: 'assistant', content: null }) +
      chunk({ role: 'assistant', content: 'hello' }) +
      end('stop'),
  },
  'few-fields': {
    stream:
      event({ choices: [{ delta: { content: 'hello' } }] }) +
      event({ choices: [{ finish_reason: 'stop' }] }) +
      done,
    whole: JSON.stringify({ choices: [{ message: { content: 'hello' } }] }),
  },
  gzip: {
    stream: hello + end('stop'),
    whole: whole({ content: 'hello' }, 'stop'),
    isCompressed: true,
  },
  'other-way-round': {
    stream: whole({ role: 'assistant', content: 'hello' }, 'stop'),
    whole: hello + end('stop'),
  },
  'message-beside-deltas': {
    stream:
      ['hel', 'lo']
        .map((content) =>
          event({
            choices: [
              { index: 0, delta: { content }, message: { content: 'hello' }, finish_reason: null },
            ],
          }),
        )
        .join('') +
      event({
        choices: [{ index: 0, message: { content: 'hello' }, finish_reason: 'stop' }],
        usage,
      }) +
      done,
  },
  'half-a-frame': {
    stream: text('hello') + 'data: {"choices":[{"index":0,"delta":{"content":"lo\n\n' + end('stop'),
  },
};

const inTwoChunks =
  event({ choices: [], usage: { prompt_tokens: 7 } }) +
  event({ choices: [], usage: { completion_tokens: 3, prompt_tokens: null } });
const early = { usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 } };
/** Usage at other places; each reports 7 and 3 tokens. */
const usages: Record<string, OddAnswer> = {
  'usage-in-the-choice': {
    stream:
      hello + event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage }] }) + done,
  },
  'usage-in-x-groq': { stream: hello + chunk({}, 'stop', { x_groq: { id: 'r', usage } }) + done },
  'usage-in-two-chunks': { stream: hello + chunk({}, 'stop') + inTwoChunks + done },
  'usage-in-each-chunk': {
    stream:
      chunk({ content: 'hel' }, null, early) + chunk({ content: 'lo' }, 'stop', { usage }) + done,
  },
};

/** Answers without output and without a finish reason. */
const failures: Record<string, OddAnswer> = {
  'only-the-end-mark': { stream: done, whole: '{}' },
  nothing: { stream: '', whole: '' },
  'only-a-role': {
    stream: chunk({ role: 'assistant', content: '' }) + done,
    whole: whole({ role: 'assistant', content: null }, null),
  },
  'only-usage': {
    stream: event({ choices: [], usage }) + done,
    whole: whole(null, null, { choices: [] }),
  },
  'error-event': {
    stream: 'event: error\n' + event({ message: 'upstream failed', code: 502 }) + done,
  },
  'error-event-as-text': { stream: 'event: error\ndata: upstream failed\n\n' + done },
  'finish-error': {
    stream: chunk({ content: '' }, 'error') + done,
    whole: whole({ content: '' }, 'error'),
  },
  'finish-network-error': {
    stream: chunk({ content: '' }, 'network_error') + done,
    whole: whole({ content: null }, 'insufficient_system_resource'),
  },
  'error-in-the-choice': {
    stream:
      event({
        choices: [
          { index: 0, delta: {}, error: { code: 502, message: 'bad' }, finish_reason: 'error' },
        ],
      }) + done,
  },
  'html-page': {
    stream: '<!doctype html><h1>Welcome</h1>\n',
    whole: '<!doctype html><h1>Welcome</h1>\n',
  },
  'half-a-document': { stream: '{"choices":[', whole: '{"choices":[' },
};

/** Errors with status 200; each is the first event of a stream. */
const errors: Record<string, OddAnswer> = {
  'context-length-exceeded': {
    stream: error({ code: 'context_length_exceeded', type: 'invalid_request_error' }) + done,
    whole: wholeError({ code: 'context_length_exceeded' }),
  },
  'too-long-by-its-message': {
    stream: error({ message: 'This model’s maximum context length is 8 tokens.', code: null }),
    whole: wholeError({ message: 'prompt is too long' }),
  },
  'code-429': {
    stream: error({ code: 429, type: 'requests' }),
    whole: wholeError({ code: '429' }),
  },
  'rate-limit-exceeded': {
    stream: error({ code: 'rate_limit_exceeded', type: 'requests' }),
    whole: wholeError({ type: 'rate_limit_error' }),
  },
  'code-503': { stream: error({ code: 503 }), whole: wholeError({ code: 503 }) },
  overloaded: {
    stream: error({ type: 'overloaded_error' }),
    whole: wholeError({ type: 'service_unavailable' }),
  },
  'content-filter': {
    stream: error({ code: 'content_filter', type: null }),
    whole: wholeError({ code: 'content_filter' }),
  },
  'invalid-request': {
    stream: error({ type: 'invalid_request_error', param: 'tools' }),
    whole: wholeError({ type: 'invalid_request_error', param: 'tools' }),
  },
  'error-in-a-list': {
    stream: `data: ${JSON.stringify([{ error: { code: 429, message: 'Quota', status: 'RESOURCE_EXHAUSTED' } }])}\n\n`,
    whole: JSON.stringify([
      { error: { code: 429, message: 'Quota', status: 'RESOURCE_EXHAUSTED' } },
    ]),
  },
  'error-object': {
    stream: event({
      object: 'error',
      message: 'no such field',
      type: 'BadRequestError',
      code: 400,
    }),
    whole: JSON.stringify({
      object: 'error',
      message: 'no such field',
      type: 'BadRequestError',
      code: 400,
    }),
  },
  'error-as-text': {
    stream: event({ error: 'rate limit reached' }),
    whole: JSON.stringify({ error: 'rate limit reached' }),
  },
  'error-detail': {
    stream: event({ detail: 'out of order' }),
    whole: JSON.stringify({ detail: 'out of order' }),
  },
  'error-after-the-role': {
    stream:
      chunk({ role: 'assistant', content: '' }) + error({ code: 'context_length_exceeded' }) + done,
  },
  'error-without-events': { stream: wholeError({ code: 429 }) },
  'error-after-output': { stream: text('hello') + error({ code: 'rate_limit_exceeded' }) },
  'finish-error-after-output': { stream: text('hello') + end('error') },
};

/** Answers by name. */
export const oddOpenaiAnswers: Readonly<Record<string, OddAnswer>> = {
  ...oddCalls,
  ...endings,
  ...frames,
  ...usages,
  ...failures,
  ...errors,
};
