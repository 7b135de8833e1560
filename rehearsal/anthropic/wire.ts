// Implements Anthropic's wire: messages, token counting, models.
import { findModel, MODELS, type Model } from '../models.ts';
import { makeRefusalResponse, makeScriptedResponse } from '../scripted-response.ts';
import { estimateTokens } from '../tokens.ts';
import {
  type IncomingRequest,
  type RehearsalResponse,
  type RehearsalWire,
  readBearerToken,
} from '../wire.ts';
import { checkCacheBreakpoints, checkPromptLength, checkRequest } from './check-request.ts';
import { encodeReply, formatScriptedError } from './encode-reply.ts';
import { measurePrompt, normalizeRequest } from './normalize-request.ts';
import {
  type ApiVersion,
  checkKey,
  checkVersion,
  formatRefusal,
  refuse,
  refuseUnknownModel,
} from './refusals.ts';
import type { MessagesRequest } from './types.ts';

function respondToMessages(incoming: IncomingRequest, isCounting: boolean): RehearsalResponse {
  const version = incoming.headers['anthropic-version'] as ApiVersion;
  const hasBeta = incoming.headers['anthropic-beta'] !== undefined;
  const refusal = checkRequest(incoming.body, { version, hasBeta, isCounting });
  if (refusal) return makeRefusalResponse(refusal);
  const request = incoming.body as MessagesRequest;
  const model = findModel(request.model)!;
  const size = measurePrompt(request);
  const breakpointRefusal = checkCacheBreakpoints(size.breakpointCount);
  if (breakpointRefusal) return makeRefusalResponse(breakpointRefusal);
  if (isCounting) {
    const tokens = Math.max(1, estimateTokens(size.chars));
    return { kind: 'body', body: JSON.stringify({ input_tokens: tokens }) };
  }
  const lengthRefusal = checkPromptLength(size, model, request.max_tokens);
  if (lengthRefusal) return makeRefusalResponse(lengthRefusal);
  return makeScriptedResponse(incoming, {
    request: normalizeRequest(request, model),
    callIdPrefix: 'toolu_',
    isStreaming: request.stream === true,
    noMatchRefusal: { ...refuse('No play matches this request.'), status: 500, type: 'api_error' },
    encodeReply: (reply) => encodeReply(request, reply, size, incoming.seed),
  });
}

const describeModel = (model: Model) => ({
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

function respondToModels(path: string): RehearsalResponse {
  const id = path.slice('/v1/models/'.length);
  const models = MODELS.filter((model) => model.kind === 'chat');
  if (id === '') {
    const [first_id, last_id] = [models[0]!.id, models.at(-1)!.id];
    const page = { data: models.map(describeModel), has_more: false, first_id, last_id };
    return { kind: 'body', body: JSON.stringify(page) };
  }
  const model = models.find((candidate) => candidate.id === id);
  return model
    ? { kind: 'body', body: JSON.stringify(describeModel(model)) }
    : makeRefusalResponse(refuseUnknownModel(id));
}

export const anthropicWire: RehearsalWire = {
  requestIdHeader: 'request-id',
  checkHeaders(headers) {
    const apiKey = headers['x-api-key'];
    const isBearer = typeof apiKey !== 'string';
    const key = isBearer ? readBearerToken(headers) : apiKey;
    const version = headers['anthropic-version'];
    return checkKey(key, isBearer) ?? checkVersion(Array.isArray(version) ? version[0] : version);
  },
  formatRefusal: (refusal, requestId) => formatRefusal(refusal, requestId),
  formatError: (error, requestId) => formatScriptedError(error, requestId),
  respond(incoming) {
    if (incoming.path === '/v1/messages') return respondToMessages(incoming, false);
    if (incoming.path === '/v1/messages/count_tokens') return respondToMessages(incoming, true);
    return respondToModels(incoming.path);
  },
};
