// Writes an answer to the connection, whole or broken in the way the play asks: cut off, garbled,
// without end, or in small slow pieces. Stops at once when the caller hangs up. Knows no wire.
import type { ServerResponse } from 'node:http';
import type { DefectKind } from './screenplay/types.ts';

export type EncodedReply = {
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A body that is not streamed is one piece; a stream has one piece per event. */
  readonly chunks: readonly string[];
  /** How many pieces a real server sends before the model has said anything. */
  readonly openingChunkCount: number;
  /** A piece that is well framed and whose JSON is not. */
  readonly malformedChunk: string;
  /** How an answer without end begins, and what it goes on with. */
  readonly endless: { readonly opening: string; readonly repeated: string };
};

export type DeliveryOptions = { readonly delayMs: number; readonly defect: DefectKind | undefined };

const SLOW_CHUNK_BYTES = 7;
const ENDLESS_INTERVAL_MS = 2;

/** Waits, but not for a caller who has hung up. */
export function sleepUnlessClosed(response: ServerResponse, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      response.off('close', done);
      resolve();
    }
    response.once('close', done);
  });
}

async function writeWithBackpressure(
  response: ServerResponse,
  data: string | Buffer,
): Promise<void> {
  if (response.write(data) || response.destroyed) return;
  await new Promise<void>((resolve) => {
    function done() {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    }
    response.once('drain', done);
    response.once('close', done);
  });
}

async function writeSlowly(response: ServerResponse, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  for (let offset = 0; offset < bytes.length && !response.destroyed; offset += SLOW_CHUNK_BYTES) {
    await writeWithBackpressure(response, bytes.subarray(offset, offset + SLOW_CHUNK_BYTES));
    await sleepUnlessClosed(response, 1);
  }
  response.end();
}

async function writeEndlessly(response: ServerResponse, reply: EncodedReply): Promise<void> {
  await writeWithBackpressure(response, reply.endless.opening);
  while (!response.destroyed) {
    await writeWithBackpressure(response, reply.endless.repeated);
    await sleepUnlessClosed(response, ENDLESS_INTERVAL_MS);
  }
}

async function writeHalf(response: ServerResponse, reply: EncodedReply): Promise<void> {
  const bytes = Buffer.from(reply.chunks.join(''));
  await writeWithBackpressure(response, bytes.subarray(0, Math.ceil(bytes.length / 2)));
  // The half that was sent must arrive before the connection breaks, else nothing was cut mid-way.
  await sleepUnlessClosed(response, 5);
  response.destroy();
}

function insertMalformedChunk(reply: EncodedReply): string {
  const { chunks, malformedChunk } = reply;
  if (chunks.length === 1) return malformedChunk;
  const middle = Math.ceil(chunks.length / 2);
  return [...chunks.slice(0, middle), malformedChunk, ...chunks.slice(middle)].join('');
}

async function deliverWithDefect(
  response: ServerResponse,
  reply: EncodedReply,
  defect: DefectKind,
) {
  switch (defect) {
    case 'cut_mid_stream':
      return writeHalf(response, reply);
    case 'endless':
      return writeEndlessly(response, reply);
    case 'slow_bytes':
      return writeSlowly(response, reply.chunks.join(''));
    case 'malformed_json':
      response.end(insertMalformedChunk(reply));
      return;
    case 'unknown_tool':
    case 'bad_arguments':
      response.end(reply.chunks.join(''));
  }
}

async function deliverDelayed(
  response: ServerResponse,
  reply: EncodedReply,
  options: DeliveryOptions,
) {
  const { chunks } = reply;
  // A real stream opens before the model speaks; so callers can meet a cancel or a timeout in
  // mid-stream.
  const openingChunkCount = options.defect ? 0 : reply.openingChunkCount;
  if (openingChunkCount === 0) await sleepUnlessClosed(response, options.delayMs);
  if (response.destroyed) return;
  response.writeHead(200, { 'content-type': reply.contentType, ...reply.headers });
  if (options.defect) return deliverWithDefect(response, reply, options.defect);
  if (openingChunkCount > 0) {
    await writeWithBackpressure(response, chunks.slice(0, openingChunkCount).join(''));
    await sleepUnlessClosed(response, options.delayMs);
  }
  if (!response.destroyed) response.end(chunks.slice(openingChunkCount).join(''));
}

export async function deliverReply(
  response: ServerResponse,
  reply: EncodedReply,
  options: DeliveryOptions,
): Promise<void> {
  if (options.delayMs > 0) return deliverDelayed(response, reply, options);
  response.writeHead(200, { 'content-type': reply.contentType, ...reply.headers });
  if (options.defect) return deliverWithDefect(response, reply, options.defect);
  if (reply.openingChunkCount > 0) response.write(reply.chunks[0]!);
  response.end(reply.openingChunkCount > 0 ? reply.chunks.slice(1).join('') : reply.chunks[0]);
}
