// Encodes a rendered reply for OpenAI's Responses API: one response, or a stream of its events.
import type { EncodedReply } from '../deliver-reply.ts';
import { CREATED_AT_SECONDS, formatScriptedError, makeUsage } from '../openai/encode-reply.ts';
import type { RenderedPart, RenderedReply, ScriptedError } from '../render-reply.ts';
import { splitText } from '../split-text.ts';
import type { PromptSize } from '../tokens.ts';
import { listOffers, type OfferedTool } from './normalize-request.ts';
import { encryptReasoning } from './reasoning.ts';
import type { OutputItem, OutputTextPart, ResponsesRequest, ResponsesUsage } from './types.ts';

type JsonRecord = Record<string, unknown>;

const makeTextPart = (text: string): OutputTextPart => ({
  type: 'output_text',
  text,
  annotations: [],
  logprobs: [],
});

function writeUsage(reply: RenderedReply, size: PromptSize): ResponsesUsage {
  const usage = makeUsage(reply, size);
  const { cached_tokens, cache_write_tokens } = usage.prompt_tokens_details;
  const { reasoning_tokens } = usage.completion_tokens_details;
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens, cache_write_tokens },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens },
    total_tokens: usage.total_tokens,
  };
}

type EncodeContext = {
  readonly request: ResponsesRequest;
  readonly reply: RenderedReply;
  readonly offers: ReadonlyMap<string, OfferedTool>;
  readonly seed: string;
};

function makeItem(part: RenderedPart, index: number, context: EncodeContext): OutputItem {
  const { request, reply, offers, seed } = context;
  const id = `${seed.slice(0, 30)}${String(index).padStart(2, '0')}`;
  if (part.kind === 'thinking') {
    const isEncrypted = request.include?.includes('reasoning.encrypted_content') === true;
    return {
      id: `rs_${id}`,
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: part.text }],
      ...(isEncrypted ? { encrypted_content: encryptReasoning(part.text) } : {}),
    };
  }
  const status = reply.stopReason === 'max_tokens' ? 'incomplete' : 'completed';
  if (part.kind === 'text') {
    const content =
      reply.stopReason === 'refusal'
        ? { type: 'refusal' as const, refusal: part.text }
        : makeTextPart(part.text);
    return { id: `msg_${id}`, type: 'message', status, role: 'assistant', content: [content] };
  }
  const offer = offers.get(part.name);
  const own = {
    status,
    call_id: part.id,
    name: offer?.tool.name ?? part.name,
    ...(offer?.namespace === undefined ? {} : { namespace: offer.namespace }),
  } as const;
  if (offer?.tool.type !== 'custom')
    return { id: `fc_${id}`, type: 'function_call', ...own, arguments: part.inputText };
  const input = part.input.input;
  return {
    id: `ctc_${id}`,
    type: 'custom_tool_call',
    ...own,
    input: typeof input === 'string' ? input : part.inputText,
  };
}

function makeResponse(context: EncodeContext, rest: JsonRecord): JsonRecord {
  const { request, seed } = context;
  return {
    id: `resp_${seed.slice(0, 32)}`,
    object: 'response',
    created_at: CREATED_AT_SECONDS,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    model: request.model,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: null,
    service_tier: 'default',
    store: false,
    temperature: 1,
    tool_choice: request.tool_choice ?? 'auto',
    tools: request.tools ?? [],
    top_p: 1,
    truncation: 'disabled',
    ...rest,
  };
}

function finish(context: EncodeContext, output: OutputItem[], size: PromptSize): JsonRecord {
  const isCut = context.reply.stopReason === 'max_tokens';
  return makeResponse(context, {
    status: isCut ? 'incomplete' : 'completed',
    ...(isCut ? { incomplete_details: { reason: 'max_output_tokens' } } : {}),
    output,
    usage: writeUsage(context.reply, size),
  });
}

class EventList {
  readonly chunks: string[] = [];

  send(type: string, rest: JsonRecord): void {
    const data = JSON.stringify({ type, sequence_number: this.chunks.length, ...rest });
    this.chunks.push(`event: ${type}\ndata: ${data}\n\n`);
  }

  addItem(item: OutputItem, output_index: number): void {
    const at = { item_id: item.id, output_index };
    this.send('response.output_item.added', { output_index, item: emptyItem(item) });
    if (item.type === 'message') this.#addContent(item, at);
    else if (item.type === 'reasoning') this.#addSummary(item, at);
    else if (item.type === 'function_call') {
      this.#addDeltas('response.function_call_arguments', at, item.arguments);
      const done = { ...at, name: item.name, arguments: item.arguments };
      this.send('response.function_call_arguments.done', done);
    } else {
      this.#addDeltas('response.custom_tool_call_input', at, item.input);
      this.send('response.custom_tool_call_input.done', { ...at, input: item.input });
    }
    this.send('response.output_item.done', { output_index, item });
  }

  #addDeltas(name: string, at: JsonRecord, text: string, more: JsonRecord = {}): void {
    for (const delta of splitText(text)) this.send(`${name}.delta`, { ...at, delta, ...more });
  }

  #addContent(item: OutputItem & { type: 'message' }, item_at: JsonRecord): void {
    const part = item.content[0]!;
    const at = { ...item_at, content_index: 0 };
    const isText = part.type === 'output_text';
    const empty = isText ? makeTextPart('') : { type: 'refusal', refusal: '' };
    this.send('response.content_part.added', { ...at, part: empty });
    if (part.type === 'output_text') {
      const more = { logprobs: [] };
      this.#addDeltas('response.output_text', at, part.text, more);
      this.send('response.output_text.done', { ...at, text: part.text, ...more });
    } else {
      this.#addDeltas('response.refusal', at, part.refusal);
      this.send('response.refusal.done', { ...at, refusal: part.refusal });
    }
    this.send('response.content_part.done', { ...at, part });
  }

  #addSummary(item: OutputItem & { type: 'reasoning' }, item_at: JsonRecord): void {
    const [part] = item.summary;
    const at = { ...item_at, summary_index: 0 };
    const empty = { ...part!, text: '' };
    this.send('response.reasoning_summary_part.added', { ...at, part: empty });
    this.#addDeltas('response.reasoning_summary_text', at, part!.text);
    this.send('response.reasoning_summary_text.done', { ...at, text: part!.text });
    this.send('response.reasoning_summary_part.done', { ...at, part });
  }
}

function emptyItem(item: OutputItem): OutputItem {
  switch (item.type) {
    case 'message':
      return { ...item, status: 'in_progress', content: [] };
    case 'reasoning':
      return { ...item, summary: [] };
    case 'function_call':
      return { ...item, status: 'in_progress', arguments: '' };
    case 'custom_tool_call':
      return { ...item, status: 'in_progress', input: '' };
  }
}

function makeEvents(context: EncodeContext, output: OutputItem[], size: PromptSize): string[] {
  const list = new EventList();
  const begun = makeResponse(context, { status: 'in_progress', output: [], usage: null });
  list.send('response.created', { response: begun });
  list.send('response.in_progress', { response: begun });
  const failure = context.reply.error?.isInStream ? context.reply.error : undefined;
  if (failure !== undefined) {
    list.send('response.failed', { response: { ...begun, ...failed(failure) } });
    return list.chunks;
  }
  for (const [index, item] of output.entries()) list.addItem(item, index);
  const response = finish(context, output, size);
  list.send(`response.${String(response.status)}`, { response });
  return list.chunks;
}

function failed(failure: ScriptedError): JsonRecord {
  const { error } = JSON.parse(formatScriptedError(failure)) as { error: JsonRecord };
  return { status: 'failed', error: { ...error, code: error.code ?? error.type } };
}

/** Repeats in an endless reply, at megabytes per second, to reach a caller's limits soon. */
const ENDLESS_TEXT = '[rehearsal] and on and on ';
const BODY_REPEATS = 256;
const EVENT_REPEATS = 32;

export function encodeReply(
  request: ResponsesRequest,
  reply: RenderedReply,
  size: PromptSize,
  seed: string,
): EncodedReply {
  const context: EncodeContext = { request, reply, offers: listOffers(request), seed };
  const output = reply.parts.map((part, index) => makeItem(part, index, context));
  const headers = { 'x-request-id': `req_${seed.slice(0, 32)}`, 'openai-version': '2020-10-01' };
  if (request.stream !== true) {
    const body = JSON.stringify(finish(context, output, size));
    return {
      contentType: 'application/json',
      headers,
      chunks: [body],
      openingChunkCount: 0,
      malformedChunk: body.slice(0, -9),
      endless: {
        opening: `${body.slice(0, body.indexOf('"metadata":'))}"user":"`,
        repeated: ENDLESS_TEXT.repeat(BODY_REPEATS),
      },
    };
  }
  const chunks = makeEvents(context, output, size);
  const delta = JSON.stringify({
    type: 'response.output_text.delta',
    output_index: 0,
    delta: ENDLESS_TEXT,
  });
  const repeated = `event: response.output_text.delta\ndata: ${delta}\n\n`;
  return {
    contentType: 'text/event-stream; charset=utf-8',
    headers,
    chunks,
    openingChunkCount: 1,
    malformedChunk: 'event: response.output_text.delta\ndata: {"type":"response.outp\n\n',
    endless: { opening: chunks[0]!, repeated: repeated.repeat(EVENT_REPEATS) },
  };
}
