// Client and provider speak the same dialect: the client's body goes out as it came but for the
// model and the output limit, and the answer's bytes come back untouched while a tap reads what was
// used.
import type { Dialect, ModelResponse } from './dialect.ts';
import type { StreamedResponse, WholeResponse } from './provider-client.ts';
import { asObject, type JsonObject } from './reading.ts';
import { spliceJson } from './splice-json.ts';
import { type ReadBlock, type StartedStream, startStream } from './stream-response.ts';
import { unchangedNames } from './tool-names.ts';

export type PassthroughRequest = {
  text: string;
  stream: boolean;
  /** The client did not ask for usage in its stream; we did, and keep that chunk to ourselves. */
  hidesUsage: boolean;
};

export function passRequest(options: {
  dialect: Dialect;
  /** The body as it came, and the same parsed. */
  text: string;
  body: JsonObject;
  model: string;
  /** Left as the client wrote it when undefined. */
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

/** What a whole answer says of itself. Its bytes are in the answer, to be sent as they are. */
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
}): Promise<StartedStream<Buffer>> {
  const { dialect, upstream, model, provider, hidesUsage } = options;
  return startStream<Buffer>({
    upstream,
    provider,
    reader: dialect.readStream(unchangedNames(model, provider)),
    convert: (blocks) => joinBlocks(blocks, hidesUsage),
    writeEnd: () => undefined,
    // Ours and not the vendor's own event, whose words nobody has looked through.
    writeFault: (reason) => Buffer.from(dialect.writeStreamError(reason)),
  });
}

/** Only whole blocks, so that an aborted stream never leaves half an event at the client. */
function joinBlocks(blocks: ReadBlock[], hidesUsage: boolean): Buffer | undefined {
  const sent = blocks.filter(({ isUsageOnly }) => !(hidesUsage && isUsageOnly));
  return sent.length === 0 ? undefined : Buffer.concat(sent.map(({ block }) => block.raw));
}
