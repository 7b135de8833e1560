// Writes an encoded reply to the connection, intact or with a scripted defect: truncated,
// malformed, endless, or in small slow chunks. Stops as soon as the caller disconnects.
import type { ServerResponse } from 'node:http';
import type { DefectKind } from './screenplay/types.ts';

export type EncodedReply = {
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string>>;
  /** One chunk for a body that is not streamed; one chunk per event for a stream. */
  readonly chunks: readonly string[];
  /** Number of chunks a real server sends before the model's first output. */
  readonly openingChunkCount: number;
  /** A correctly framed chunk with invalid JSON. */
  readonly malformedChunk: string;
  /** The start of an endless reply, and the chunk that repeats after it. */
  readonly endless: { readonly opening: string; readonly repeated: string };
};

export type DeliveryOptions = { readonly delayMs: number; readonly defect: DefectKind | undefined };

const SLOW_CHUNK_BYTES = 7;
const ENDLESS_INTERVAL_MS = 2;

/** Resolves after `ms`, or as soon as the caller disconnects. */
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
  // The caller must receive the first half before the connection is reset.
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
  // A real stream opens before the model's first output, so that callers can be canceled or time
  // out in the middle of a stream.
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
