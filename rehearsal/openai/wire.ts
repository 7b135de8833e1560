// OpenAI's wire as the server sees it: chat completions, embeddings, models.
import { findModel, MODELS, type Model } from '../models.ts';
import { playReply, refusalReply } from '../play.ts';
import { type Asked, type Reply, readBearer, type Wire } from '../wire.ts';
import { CREATED, makeScript, shapePlayedError } from './answer.ts';
import { checkChat, checkLength } from './check-chat.ts';
import { answerEmbeddings } from './embeddings.ts';
import { refuse, refuseKey, refuseModel, shapeRefusal } from './refusals.ts';
import { measurePrompt, readScene, requestedTokens } from './scene.ts';
import type { ChatRequest } from './types.ts';

function answerChat(asked: Asked): Reply {
  const refusal = checkChat(asked.body);
  if (refusal) return refusalReply(refusal);
  const request = asked.body as ChatRequest;
  const model = findModel(request.model)!;
  const size = measurePrompt(request);
  const tooLong = checkLength(size, model, requestedTokens(request));
  if (tooLong) return refusalReply(tooLong);
  return playReply(asked, {
    scene: readScene(request, model),
    callPrefix: 'call_',
    isStream: request.stream === true,
    noPlay: { ...refuse('No play takes this request.'), status: 500, type: 'server_error' },
    makeScript: (performance) => makeScript(request, performance, size, asked.seed),
  });
}

const viewModel = (model: Model) => ({
  id: model.id,
  object: 'model',
  created: CREATED,
  owned_by: 'rehearsal',
});

function answerModels(path: string): Reply {
  const id = path.slice('/v1/models/'.length);
  if (id === '') {
    return { kind: 'body', body: JSON.stringify({ object: 'list', data: MODELS.map(viewModel) }) };
  }
  const model = findModel(id);
  return model
    ? { kind: 'body', body: JSON.stringify(viewModel(model)) }
    : refusalReply({ ...refuseModel(id), param: 'model' });
}

export const openaiWire: Wire = {
  requestIdHeader: 'x-request-id',
  checkHeaders: (headers) => refuseKey(readBearer(headers)),
  shape: (refusal) => shapeRefusal(refusal),
  shapeError: (error) => shapePlayedError(error),
  answer(asked) {
    if (asked.path === '/v1/chat/completions') return answerChat(asked);
    if (asked.path !== '/v1/embeddings') return answerModels(asked.path);
    const answer = answerEmbeddings(asked.body);
    return typeof answer === 'string' ? { kind: 'body', body: answer } : refusalReply(answer);
  },
};
