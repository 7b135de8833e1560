// Passes a call through when client and provider share a dialect: only the model and the output
// limit of the body change, and the response's bytes are unchanged while a tap reads the usage.
import type { Dialect, ModelResponse, ResponseObserver } from './dialect.ts';
import type { StreamedResponse, WholeResponse } from './provider-client.ts';
import { asObject, type JsonObject } from './reading.ts';
import { spliceJson } from './splice-json.ts';
import { type ReadBlock, type StartedStream, startStream } from './stream-response.ts';
import { unchangedNames } from './tool-names.ts';

export type PassthroughRequest = {
  text: string;
  stream: boolean;
  /** The client did not request usage in its stream; modeld did, and removes that chunk. */
  hidesUsage: boolean;
};

export function passRequest(options: {
  dialect: Dialect;
  /** The client's body as received, and parsed. */
  text: string;
  body: JsonObject;
  model: string;
  /** Undefined leaves the client's limit. */
  maxOutputTokens?: number | undefined;
  maxTokensField?: 'max_completion_tokens' | 'max_tokens' | undefined;
}): PassthroughRequest {
  const { dialect, body, maxOutputTokens } = options;
  const changes: JsonObject = { model: options.model };
  if (maxOutputTokens !== undefined)
    Object.assign(changes, dialect.outputLimit(body, maxOutputTokens, options));
  const stream = body.stream === true;
  const streamOptions = asObject(body.stream_options) ?? {};
  const hidesUsage = dialect.name === 'openai' && stream && streamOptions.include_usage !== true;
  if (hidesUsage) changes.stream_options = { ...streamOptions, include_usage: true };
  return { text: spliceJson(options.text, changes), stream, hidesUsage };
}

export function tapResponse(options: {
  dialect: Dialect;
  response: WholeResponse;
  model: string;
  provider: string;
}): ModelResponse {
  const { dialect, response, model, provider } = options;
  return dialect.readResponse(response.json, unchangedNames(model, provider));
}

export function passStream(options: {
  dialect: Dialect;
  upstream: StreamedResponse;
  model: string;
  provider: string;
  hidesUsage: boolean;
  observer?: ResponseObserver | undefined;
}): Promise<StartedStream<Buffer>> {
  const { dialect, upstream, model, provider, hidesUsage, observer } = options;
  return startStream<Buffer>({
    upstream,
    provider,
    observer,
    reader: dialect.readStream(unchangedNames(model, provider)),
    convert: (blocks) => joinBlocks(blocks, hidesUsage),
    writeEnd: () => undefined,
    // Not the vendor's own event, which may contain the key.
    writeFault: (reason) => Buffer.from(dialect.writeStreamError(reason)),
  });
}

/** Only whole blocks, so that an aborted stream never leaves half an event at the client. */
function joinBlocks(blocks: ReadBlock[], hidesUsage: boolean): Buffer | undefined {
  const sent = blocks.filter(({ isUsageOnly }) => !(hidesUsage && isUsageOnly));
  return sent.length === 0 ? undefined : Buffer.concat(sent.map(({ block }) => block.raw));
}
