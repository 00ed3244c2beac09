/**
 * The models that may answer a chat, in the order in which they are asked: the next one is, when the one
 * before certainly did nothing. One reservation covers the dearest of them.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { ChatBody } from './chat-body.ts';
import { affordableOutput, boundsOf, type ChatBounds, type InputCount } from './chat-price.ts';
import type { Upstream, Upstreams } from './upstreams.ts';

/** A model, ready to be asked. */
export interface ChatCandidate {
  model: ChatModel;
  upstream: Upstream;
  /** Tokens of the input: our estimate, and the most that any provider can count. */
  inputEstimate: number;
  inputBound: number;
  /** Answers of the request. */
  answers: number;
  /** The request as it is sent. */
  request: () => string;
}

/** A model that did not answer, and why. */
export interface FailedTry {
  model: string;
  error: GatewayError['code'];
}

/** Candidates, the first of which is asked first. */
export type ChatCandidates = readonly [ChatCandidate, ...ChatCandidate[]];

/** What is the same for all candidates. */
interface Asked {
  body: ChatBody;
  maxTokens: number | null;
  stream: boolean;
  input: InputCount;
}

/** Candidates before anything is reserved. */
export interface CandidatesDraft {
  /** Micro-credits that the dearest needs at least, and may cost at most. */
  amountMinMicro: number;
  amountMaxMicro: number;
  /** The model that may cost the most. */
  dearest: { model: ChatModel; bounds: ChatBounds };
  /** Each with an answer as long as this many micro-credits allow. */
  grant: (amountMicro: number) => ChatCandidates;
}

/**
 * Makes the requests of all models.
 * @throws GatewayError UNSUPPORTED_PARAMETER naming what one of them does not take, SERVICE_UNAVAILABLE
 */
export function draftCandidates(
  [first, ...others]: readonly [ChatModel, ...ChatModel[]],
  asked: Asked,
  { upstreams, usdPerCredit }: { upstreams: Upstreams; usdPerCredit: number },
): CandidatesDraft {
  const draft = (model: ChatModel) => draftOf(model, asked, { upstreams, usdPerCredit });
  const drafts = [draft(first), ...others.map(draft)] as const;
  const [head, ...tail] = drafts;
  const dearest = drafts.reduce((a, b) =>
    b.bounds.amountMaxMicro > a.bounds.amountMaxMicro ? b : a,
  );
  return {
    amountMinMicro: Math.max(...drafts.map(({ bounds }) => bounds.amountMinMicro)),
    amountMaxMicro: dearest.bounds.amountMaxMicro,
    dearest,
    grant: (amountMicro) => [
      head.grant(amountMicro),
      ...tail.map((each) => each.grant(amountMicro)),
    ],
  };
}

interface CandidateDraft {
  model: ChatModel;
  bounds: ChatBounds;
  grant: (amountMicro: number) => ChatCandidate;
}

function draftOf(
  model: ChatModel,
  { body, maxTokens, stream, input }: Asked,
  { upstreams, usdPerCredit }: { upstreams: Upstreams; usdPerCredit: number },
): CandidateDraft {
  const upstream = upstreams.of(model);
  const fields = upstream.protocol.encode({ model, body, stream });
  const bounds = boundsOf(model, { input, maxTokens, answers: body.n ?? 1 }, usdPerCredit);
  return {
    model,
    bounds,
    grant(amountMicro) {
      fields[upstream.protocol.boundField(model)] = affordableOutput(
        model,
        { bounds, amountMicro },
        usdPerCredit,
      );
      return {
        model,
        upstream,
        inputEstimate: Math.min(input.estimate, bounds.inputTokens),
        inputBound: bounds.inputTokens,
        answers: bounds.answers,
        request: () => JSON.stringify(fields),
      };
    },
  };
}

/** The failure of the last of several models, with what became of all. */
export function withTries(failure: GatewayError, tried: readonly FailedTry[]): GatewayError {
  if (tried.length < 2) return failure;
  const { code, message, details, retryAfterSeconds, cause } = failure;
  const extras = { details, retryAfterSeconds, cause };
  return new GatewayError(code, message, { ...extras, body: { ...failure.body, tried } });
}
