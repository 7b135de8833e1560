// Pipes a stream into another with backpressure, and counts bytes before it forwards them.
import type { Readable, Writable } from 'node:stream';

/** `spend` returns whether this many more bytes may pass. */
export function pipeMetered(from: Readable, to: Writable, spend: (bytes: number) => boolean): void {
  from.on('data', (chunk: Buffer) => {
    if (spend(chunk.length) && !to.write(chunk, () => free(chunk))) from.pause();
  });
  to.on('drain', () => from.resume());
  from.on('end', () => to.end());
}

const FREED_BYTES_MIN = 16_384;

/**
 * Frees the memory of a chunk at once. Left to the collector, the buffers of a fast tunnel trigger
 * it so often that it costs as much as forwarding the bytes.
 */
function free(chunk: Buffer): void {
  const { buffer, length } = chunk;
  const isOwn = buffer instanceof ArrayBuffer && buffer.byteLength === length;
  if (isOwn && length >= FREED_BYTES_MIN) buffer.transfer(0);
}
