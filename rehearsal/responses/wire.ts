// Implements OpenAI's Responses API. Keys and errors are those of OpenAI's other routes.
import { findModel } from '../models.ts';
import { checkPromptLength } from '../openai/check-chat.ts';
import { refuse } from '../openai/refusals.ts';
import { openaiWire } from '../openai/wire.ts';
import { makeRefusalResponse, makeScriptedResponse } from '../scripted-response.ts';
import type { IncomingRequest, RehearsalResponse, RehearsalWire } from '../wire.ts';
import { checkRequest } from './check-request.ts';
import { encodeReply } from './encode-reply.ts';
import { measurePrompt, normalizeRequest } from './normalize-request.ts';
import type { ResponsesRequest } from './types.ts';

function respond(incoming: IncomingRequest): RehearsalResponse {
  const refusal = checkRequest(incoming.body);
  if (refusal) return makeRefusalResponse(refusal);
  const request = incoming.body as ResponsesRequest;
  const model = findModel(request.model)!;
  const size = measurePrompt(request);
  const requested = request.max_output_tokens ?? undefined;
  const lengthRefusal = checkPromptLength(size, model, requested);
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

export const responsesWire: RehearsalWire = { ...openaiWire, respond };
