// Implements OpenAI's wire: chat completions, embeddings, models.
import { findModel, MODELS, type Model } from '../models.ts';
import { makeRefusalResponse, makeScriptedResponse } from '../scripted-response.ts';
import {
  type IncomingRequest,
  type RehearsalResponse,
  type RehearsalWire,
  readBearerToken,
} from '../wire.ts';
import { checkChat, checkPromptLength } from './check-chat.ts';
import { respondToEmbeddings } from './embeddings.ts';
import { CREATED_AT_SECONDS, encodeReply, formatScriptedError } from './encode-reply.ts';
import { measurePrompt, normalizeRequest, readRequestedTokens } from './normalize-request.ts';
import { checkKey, formatRefusal, refuse, refuseUnknownModel } from './refusals.ts';
import type { ChatRequest } from './types.ts';

function respondToChat(incoming: IncomingRequest): RehearsalResponse {
  const refusal = checkChat(incoming.body);
  if (refusal) return makeRefusalResponse(refusal);
  const request = incoming.body as ChatRequest;
  const model = findModel(request.model)!;
  const size = measurePrompt(request);
  const lengthRefusal = checkPromptLength(size, model, readRequestedTokens(request));
  if (lengthRefusal) return makeRefusalResponse(lengthRefusal);
  return makeScriptedResponse(incoming, {
    request: normalizeRequest(request, model),
    callIdPrefix: 'call_',
    isStreaming: request.stream === true,
    noMatchRefusal: {
      ...refuse('No play matches this request.'),
      status: 500,
      type: 'server_error',
    },
    encodeReply: (reply) => encodeReply(request, reply, size, incoming.seed),
  });
}

const describeModel = (model: Model) => ({
  id: model.id,
  object: 'model',
  created: CREATED_AT_SECONDS,
  owned_by: 'rehearsal',
});

function respondToModels(path: string): RehearsalResponse {
  const id = path.slice('/v1/models/'.length);
  if (id === '') {
    return {
      kind: 'body',
      body: JSON.stringify({ object: 'list', data: MODELS.map(describeModel) }),
    };
  }
  const model = findModel(id);
  return model
    ? { kind: 'body', body: JSON.stringify(describeModel(model)) }
    : makeRefusalResponse({ ...refuseUnknownModel(id), param: 'model' });
}

export const openaiWire: RehearsalWire = {
  requestIdHeader: 'x-request-id',
  checkHeaders: (headers) => checkKey(readBearerToken(headers)),
  formatRefusal: (refusal) => formatRefusal(refusal),
  formatError: (error) => formatScriptedError(error),
  respond(incoming) {
    if (incoming.path === '/v1/chat/completions') return respondToChat(incoming);
    if (incoming.path !== '/v1/embeddings') return respondToModels(incoming.path);
    const response = respondToEmbeddings(incoming.body);
    return typeof response === 'string'
      ? { kind: 'body', body: response }
      : makeRefusalResponse(response);
  },
};
