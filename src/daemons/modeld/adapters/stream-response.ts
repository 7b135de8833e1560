// Reads a provider's stream to its end, converts its blocks for the client, and reports its end
// exactly once for settling. Nothing is sent before the first item, so that until then the call can
// be retried or rerouted.
import { Fault, fault } from '../../../wire/errors.ts';
import type {
  Dialect,
  ModelResponse,
  ResponseEvent,
  ResponseObserver,
  StreamReader,
  StreamWriter,
} from './dialect.ts';
import type { StreamedResponse } from './provider-client.ts';
import { type SseBlock, SseParser } from './sse.ts';

/** The end of a stream. With a fault, the response is incomplete. */
export type StreamEnd = { response: ModelResponse; fault?: Fault };

export type ReadBlock = { block: SseBlock; events: ResponseEvent[]; isUsageOnly: boolean };

export type StreamPlan<T> = {
  upstream: StreamedResponse;
  reader: StreamReader;
  provider: string;
  observer?: ResponseObserver | undefined;
  /** Returns the client's item for blocks that arrived together, if any. */
  convert(blocks: ReadBlock[]): T | undefined;
  writeEnd(response: ModelResponse): T | undefined;
  writeFault(fault: Fault): T | undefined;
};

export type StartedStream<T> = { items: AsyncIterableIterator<T>; ended: Promise<StreamEnd> };

/** Resolves with the first item for the client; throws when the stream fails before it. */
export async function startStream<T>(plan: StreamPlan<T>): Promise<StartedStream<T>> {
  const { promise: ended, resolve } = Promise.withResolvers<StreamEnd>();
  const items = readItems(plan, resolve);
  // A deadline must settle the call also when the client has stopped reading.
  plan.upstream.body.onFail((reason) =>
    resolve({ response: plan.reader.response(), fault: reason }),
  );
  let first: IteratorResult<T, undefined> | undefined = await items.next();
  const iterator: AsyncIterableIterator<T> = {
    next() {
      if (first === undefined) return items.next();
      const result = first;
      first = undefined;
      return Promise.resolve(result);
    },
    return: () => items.return(undefined),
    [Symbol.asyncIterator]: () => iterator,
  };
  return { items: iterator, ended };
}

async function* readItems<T>(
  plan: StreamPlan<T>,
  settle: (end: StreamEnd) => void,
): AsyncGenerator<T, undefined> {
  const { upstream, reader } = plan;
  let isStarted = false;
  try {
    for await (const item of readChunks(plan)) {
      isStarted = true;
      yield item;
    }
    const response = reader.response();
    settle({ response });
    const last = plan.writeEnd(response);
    if (last !== undefined) yield last;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const reason = upstream.scrub(error);
    settle({ response: reader.response(), fault: reason });
    if (!isStarted) throw reason;
    const last = plan.writeFault(reason);
    if (last !== undefined) yield last;
  } finally {
    // The end is still open only when the client disconnected early.
    const disconnected = fault(
      'canceled',
      'the client disconnected before the response was complete',
    );
    settle(
      reader.isDone()
        ? { response: reader.response() }
        : { response: reader.response(), fault: disconnected },
    );
    await upstream.body.return();
  }
  return undefined;
}

async function* readChunks<T>(plan: StreamPlan<T>): AsyncGenerator<T, void> {
  const { upstream, reader } = plan;
  const parser = new SseParser();
  for await (const chunk of upstream.body) {
    const { read, broken } = readBlocks(parser.push(chunk), reader);
    if (plan.observer?.isWatched() === true)
      plan.observer.show(read.flatMap(({ events }) => events));
    const item = plan.convert(read);
    if (item !== undefined) yield item;
    if (broken !== undefined) throw broken;
    if (reader.isDone()) return upstream.body.complete();
  }
  const rest = parser.end();
  if (rest !== null) {
    const { read, broken } = readBlocks([rest], reader);
    // Half an event means an aborted stream, which is reported below.
    const isHalf = broken instanceof Fault && broken.code === 'provider_malformed';
    if (broken !== undefined && !isHalf) throw broken;
    const item = reader.isDone() ? plan.convert(read) : undefined;
    if (item !== undefined) yield item;
  }
  if (!reader.isDone()) {
    throw fault(
      'provider_malformed',
      `the provider ${plan.provider} ended its stream without an end marker`,
    );
  }
}

/** Reads blocks up to the end marker or to a broken one; those before it still count. */
function readBlocks(
  blocks: SseBlock[],
  reader: StreamReader,
): { read: ReadBlock[]; broken: unknown } {
  const read: ReadBlock[] = [];
  for (const block of blocks) {
    try {
      const events = reader.push(block);
      read.push({ block, events, isUsageOnly: reader.wasUsageOnly() });
    } catch (broken) {
      return { read, broken };
    }
    if (reader.isDone()) break;
  }
  return { read, broken: undefined };
}

/** Converts the stream to neutral events, in the batches in which they arrived. */
export function startEvents(options: {
  upstream: StreamedResponse;
  reader: StreamReader;
  provider: string;
  observer?: ResponseObserver | undefined;
}): Promise<StartedStream<ResponseEvent[]>> {
  return startStream<ResponseEvent[]>({
    ...options,
    convert(blocks) {
      const events = blocks.flatMap((read) => read.events);
      return events.length === 0 ? undefined : events;
    },
    writeEnd: (response) => [{ type: 'done', response: response }],
    // The service reports the fault to a neutral client, from `ended`.
    writeFault: () => undefined,
  });
}

/** Translates the stream of one dialect into another. */
export function startTranslation(options: {
  upstream: StreamedResponse;
  reader: StreamReader;
  provider: string;
  observer?: ResponseObserver | undefined;
  writer: StreamWriter;
  client: Dialect;
}): Promise<StartedStream<string>> {
  const { writer, client } = options;
  return startStream<string>({
    ...options,
    convert(blocks) {
      let text = '';
      for (const { events } of blocks) for (const event of events) text += writer.write(event);
      return text === '' ? undefined : text;
    },
    writeEnd: (response) => writer.write({ type: 'done', response: response }),
    writeFault: (reason) => client.writeStreamError(reason),
  });
}
