// Bytes from one side to the other, counted before they are passed on, never faster than the other
// side takes them.
import type { Readable, Writable } from 'node:stream';

/** `take` says whether so many more bytes may pass. */
export function pipeMetered(from: Readable, to: Writable, take: (bytes: number) => boolean): void {
  from.on('data', (chunk: Buffer) => {
    if (take(chunk.length) && !to.write(chunk, () => free(chunk))) from.pause();
  });
  to.on('drain', () => from.resume());
  from.on('end', () => to.end());
}

const FREED_BYTES_MIN = 16_384;

/**
 * Gives the memory of a chunk back at once. Left to the collector, the buffers of a fast tunnel
 * make it run so often that it costs as much as passing the bytes on.
 */
function free(chunk: Buffer): void {
  const { buffer, length } = chunk;
  const isOwn = buffer instanceof ArrayBuffer && buffer.byteLength === length;
  if (isOwn && length >= FREED_BYTES_MIN) buffer.transfer(0);
}
