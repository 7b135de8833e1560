// Writes a neutral response in the format of OpenAI's Responses API, whole or as stream events.
import type { Part } from '../../../../wire/modeld.ts';
import { CustomInputDecoder, readCustomInput } from '../custom-tools.ts';
import type { ModelResponse, ResponseEvent, ResponseMeta, StreamWriter } from '../dialect.ts';
import type { RequestTool } from '../model-request.ts';
import type { JsonObject } from '../reading.ts';
import { readArguments } from '../reading.ts';
import { writeSse } from '../sse.ts';
import {
  findTool,
  finishResponse,
  makeCallItem,
  makeItemId,
  makeMessageItem,
  makeReasoningItem,
  makeResponseObject,
  makeTextPart,
  writeOutput,
} from './items.ts';

export function writeResponse(response: ModelResponse, meta: ResponseMeta): JsonObject {
  return finishResponse(response, meta, writeOutput(response, meta));
}

type ThinkingPart = Extract<Part, { type: 'thinking' }>;
type OpenText = { kind: 'text' | 'thinking'; id: string; index: number; text: string };
type OpenCall = {
  id: string;
  callId: string;
  index: number;
  name: string;
  argumentsText: string;
  tool: RequestTool | undefined;
  decoder: CustomInputDecoder | undefined;
  /** The custom input that was sent. */
  inputText: string;
};

export function writeStream(meta: ResponseMeta): StreamWriter {
  return new ResponsesStreamWriter(meta);
}

class ResponsesStreamWriter implements StreamWriter {
  readonly #meta: ResponseMeta;
  /** Finished items by output index. */
  readonly #output: JsonObject[] = [];
  /** Calls stay open until their end is known: their deltas may alternate. */
  readonly #calls = new Map<string, OpenCall>();
  #open: OpenText | undefined;
  #count = 0;
  #sequence = 0;

  constructor(meta: ResponseMeta) {
    this.#meta = meta;
  }

  write(event: ResponseEvent): string {
    const opening = this.#sequence === 0 ? this.#start() : '';
    return `${opening}${this.#writeEvent(event)}`;
  }

  #writeEvent(event: ResponseEvent): string {
    switch (event.type) {
      case 'text':
        return this.#extend('text', event.text);
      case 'thinking':
        return this.#extend('thinking', event.text);
      case 'signature':
        return '';
      case 'thinking_end':
        return this.#endThinking(event.part);
      case 'tool_call':
        return this.#startCall(event.id, event.name);
      case 'tool_arguments':
        return this.#extendCall(event.id, event.text);
      case 'tool_call_end':
        return this.#endCall(event.id);
      case 'done':
        return this.#finish(event.response);
    }
  }

  #send(type: string, rest: JsonObject): string {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...rest });
    return writeSse({ event: type, data });
  }

  #start(): string {
    const response = makeResponseObject(this.#meta, {
      status: 'in_progress',
      incomplete_details: null,
      output: [],
      usage: null,
    });
    return `${this.#send('response.created', { response })}${this.#send('response.in_progress', { response })}`;
  }

  #addItem(index: number, item: JsonObject): string {
    return this.#send('response.output_item.added', { output_index: index, item });
  }

  #endItem(index: number, item: JsonObject): string {
    this.#output[index] = item;
    return this.#send('response.output_item.done', { output_index: index, item });
  }

  #extend(kind: OpenText['kind'], text: string): string {
    const before = this.#open?.kind === kind ? '' : this.#openText(kind);
    const open = this.#open!;
    open.text += text;
    const at = { item_id: open.id, output_index: open.index };
    const delta =
      kind === 'text'
        ? this.#send('response.output_text.delta', {
            ...at,
            content_index: 0,
            delta: text,
            logprobs: [],
          })
        : this.#send('response.reasoning_summary_text.delta', {
            ...at,
            summary_index: 0,
            delta: text,
          });
    return `${before}${delta}`;
  }

  #openText(kind: OpenText['kind']): string {
    const before = this.#closeText();
    const index = this.#count++;
    const id = makeItemId(kind === 'text' ? 'msg' : 'rs', this.#meta, index);
    this.#open = { kind, id, index, text: '' };
    const at = { item_id: id, output_index: index };
    if (kind === 'text') {
      const item = makeMessageItem(id, '', 'in_progress');
      const part = { ...at, content_index: 0, part: makeTextPart('') };
      return `${before}${this.#addItem(index, item)}${this.#send('response.content_part.added', part)}`;
    }
    const item = { id, type: 'reasoning', summary: [] };
    const part = { ...at, summary_index: 0, part: { type: 'summary_text', text: '' } };
    return `${before}${this.#addItem(index, item)}${this.#send('response.reasoning_summary_part.added', part)}`;
  }

  #closeText(): string {
    const open = this.#open;
    if (open === undefined) return '';
    if (open.kind === 'thinking') return this.#endThinking({ type: 'thinking', text: open.text });
    this.#open = undefined;
    const { id, index, text } = open;
    const at = { item_id: id, output_index: index, content_index: 0 };
    const done = this.#send('response.output_text.done', { ...at, text, logprobs: [] });
    const part = this.#send('response.content_part.done', { ...at, part: makeTextPart(text) });
    return `${done}${part}${this.#endItem(index, makeMessageItem(id, text))}`;
  }

  #endThinking(part: ThinkingPart): string {
    const open = this.#open?.kind === 'thinking' ? this.#open : undefined;
    if (open === undefined) return this.#addWholeThinking(part);
    this.#open = undefined;
    const { id, index, text } = open;
    const at = { item_id: id, output_index: index, summary_index: 0 };
    const done = this.#send('response.reasoning_summary_text.done', { ...at, text });
    const ended = { ...at, part: { type: 'summary_text', text } };
    const item = makeReasoningItem(id, { ...part, text }, this.#meta);
    return `${done}${this.#send('response.reasoning_summary_part.done', ended)}${this.#endItem(index, item)}`;
  }

  /** Redacted thinking has no text, and arrives whole. */
  #addWholeThinking(part: ThinkingPart): string {
    const before = this.#closeText();
    const index = this.#count++;
    const item = makeReasoningItem(makeItemId('rs', this.#meta, index), part, this.#meta);
    return `${before}${this.#addItem(index, item)}${this.#endItem(index, item)}`;
  }

  #startCall(callId: string, name: string): string {
    const before = this.#closeText();
    const tool = findTool(this.#meta, name);
    const isCustom = tool?.custom !== undefined;
    const index = this.#count++;
    const call: OpenCall = {
      id: makeItemId(isCustom ? 'ctc' : 'fc', this.#meta, index),
      callId,
      index,
      name,
      argumentsText: '',
      tool,
      decoder: isCustom ? new CustomInputDecoder() : undefined,
      inputText: '',
    };
    this.#calls.set(callId, call);
    return `${before}${this.#addItem(index, makeCallItem(call, tool, 'in_progress'))}`;
  }

  #extendCall(callId: string, text: string): string {
    const call = this.#calls.get(callId);
    if (call === undefined) return '';
    call.argumentsText += text;
    if (call.decoder === undefined) {
      const at = { item_id: call.id, output_index: call.index };
      return this.#send('response.function_call_arguments.delta', { ...at, delta: text });
    }
    return this.#sendInput(call, call.decoder.push(text));
  }

  #sendInput(call: OpenCall, delta: string): string {
    if (delta === '') return '';
    call.inputText += delta;
    const at = { item_id: call.id, output_index: call.index };
    return this.#send('response.custom_tool_call_input.delta', { ...at, delta });
  }

  #endCall(callId: string): string {
    const call = this.#calls.get(callId);
    if (call === undefined) return '';
    this.#calls.delete(callId);
    const at = { item_id: call.id, output_index: call.index };
    if (call.decoder === undefined) {
      // Models leave the arguments of a tool without parameters empty; clients parse them.
      const argumentsText = call.argumentsText.trim() === '' ? '{}' : call.argumentsText;
      const { name } = call;
      const done = { ...at, name, arguments: argumentsText };
      const item = makeCallItem({ ...call, argumentsText }, call.tool);
      return `${this.#send('response.function_call_arguments.done', done)}${this.#endItem(call.index, item)}`;
    }
    const parsed = readArguments(call.argumentsText);
    const whole =
      parsed.arguments_error === undefined ? readCustomInput(parsed.arguments) : call.argumentsText;
    // The text counts as it was streamed; a model that chose another form gets it sent at once.
    const rest = call.inputText === '' ? this.#sendInput(call, whole) : '';
    const input = call.inputText;
    const done = this.#send('response.custom_tool_call_input.done', { ...at, input });
    const item = makeCallItem({ ...call, argumentsText: input }, call.tool);
    return `${rest}${done}${this.#endItem(call.index, item)}`;
  }

  #finish(response: ModelResponse): string {
    let text = this.#closeText();
    for (const callId of [...this.#calls.keys()]) text += this.#endCall(callId);
    const finished = finishResponse(response, this.#meta, this.#output);
    return `${text}${this.#send(`response.${String(finished.status)}`, { response: finished })}`;
  }
}
