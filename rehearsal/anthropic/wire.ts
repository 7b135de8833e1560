// Anthropic's wire as the server sees it: messages, counting tokens, models.
import { findModel, MODELS, type Model } from '../models.ts';
import { playReply, refusalReply } from '../play.ts';
import { estimateTokens } from '../tokens.ts';
import { type Asked, type Reply, readBearer, type Wire } from '../wire.ts';
import { makeScript, shapePlayedError } from './answer.ts';
import { checkCacheMarks, checkLength, checkRequest } from './check-request.ts';
import {
  type ApiVersion,
  refuse,
  refuseKey,
  refuseModel,
  refuseVersion,
  shapeRefusal,
} from './refusals.ts';
import { measurePrompt, readScene } from './scene.ts';
import type { MessagesRequest } from './types.ts';

function answerMessages(asked: Asked, isCounting: boolean): Reply {
  const version = asked.headers['anthropic-version'] as ApiVersion;
  const hasBeta = asked.headers['anthropic-beta'] !== undefined;
  const refusal = checkRequest(asked.body, { version, hasBeta, isCounting });
  if (refusal) return refusalReply(refusal);
  const request = asked.body as MessagesRequest;
  const model = findModel(request.model)!;
  const size = measurePrompt(request);
  const overMarked = checkCacheMarks(size.markCount);
  if (overMarked) return refusalReply(overMarked);
  if (isCounting) {
    const tokens = Math.max(1, estimateTokens(size.chars));
    return { kind: 'body', body: JSON.stringify({ input_tokens: tokens }) };
  }
  const tooLong = checkLength(size, model, request.max_tokens);
  if (tooLong) return refusalReply(tooLong);
  return playReply(asked, {
    scene: readScene(request, model),
    callPrefix: 'toolu_',
    isStream: request.stream === true,
    noPlay: { ...refuse('No play takes this request.'), status: 500, type: 'api_error' },
    makeScript: (performance) => makeScript(request, performance, size, asked.seed),
  });
}

const viewModel = (model: Model) => ({
  id: model.id,
  type: 'model',
  display_name: `Rehearsal (${model.id.replace('rehearsal-', '')})`,
  created_at: '2026-01-01T00:00:00Z',
  lifecycle: 'active',
  line: null,
  capabilities: null,
  deprecated_at: null,
  retires_at: null,
  max_input_tokens: model.contextTokensMax,
  max_tokens: model.outputTokensMax,
});

function answerModels(path: string): Reply {
  const id = path.slice('/v1/models/'.length);
  const models = MODELS.filter((model) => model.kind === 'chat');
  if (id === '') {
    const [first_id, last_id] = [models[0]!.id, models.at(-1)!.id];
    const page = { data: models.map(viewModel), has_more: false, first_id, last_id };
    return { kind: 'body', body: JSON.stringify(page) };
  }
  const model = models.find((candidate) => candidate.id === id);
  return model
    ? { kind: 'body', body: JSON.stringify(viewModel(model)) }
    : refusalReply(refuseModel(id));
}

export const anthropicWire: Wire = {
  requestIdHeader: 'request-id',
  checkHeaders(headers) {
    const apiKey = headers['x-api-key'];
    const isBearer = typeof apiKey !== 'string';
    const key = isBearer ? readBearer(headers) : apiKey;
    const version = headers['anthropic-version'];
    return refuseKey(key, isBearer) ?? refuseVersion(Array.isArray(version) ? version[0] : version);
  },
  shape: (refusal, requestId) => shapeRefusal(refusal, requestId),
  shapeError: (error, requestId) => shapePlayedError(error, requestId),
  answer(asked) {
    if (asked.path === '/v1/messages') return answerMessages(asked, false);
    if (asked.path === '/v1/messages/count_tokens') return answerMessages(asked, true);
    return answerModels(asked.path);
  },
};
