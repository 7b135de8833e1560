// Builds the response to a request that a wire has checked: selects, renders and encodes a reply.
import type { EncodedReply } from './deliver-reply.ts';
import type { NormalizedRequest } from './normalized-request.ts';
import type { RehearsalRefusal } from './refusal.ts';
import { type RenderedReply, renderReply } from './render-reply.ts';
import { selectReply } from './screenplay/select-reply.ts';
import type { IncomingRequest, RehearsalResponse } from './wire.ts';

export const makeRefusalResponse = (refusal: RehearsalRefusal): RehearsalResponse => ({
  kind: 'refusal',
  refusal,
});

export function makeScriptedResponse(
  incoming: IncomingRequest,
  options: {
    request: NormalizedRequest;
    /** Starts the id of every tool call. */
    callIdPrefix: string;
    isStreaming: boolean;
    noMatchRefusal: RehearsalRefusal;
    encodeReply(reply: RenderedReply): EncodedReply;
  },
): RehearsalResponse {
  const selected = selectReply(incoming.scenarios, options.request);
  if (!selected) return makeRefusalResponse(options.noMatchRefusal);
  const id = `${options.callIdPrefix}${incoming.seed.slice(0, 22)}`;
  const reply = renderReply(selected, (index) => `${id}${String(index).padStart(2, '0')}`);
  const { delayMs, defect, error } = reply;
  return {
    kind: 'scripted',
    reply: options.encodeReply(reply),
    delivery: { delayMs, defect },
    error: error?.isInStream === true && options.isStreaming ? undefined : error,
  };
}
