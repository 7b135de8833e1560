// Bytes from one side to the other, counted before they are passed on, never faster than the other
// side takes them.
import type { Readable, Writable } from 'node:stream';

/** `take` says whether so many more bytes may pass. */
export function pour(from: Readable, to: Writable, take: (bytes: number) => boolean): void {
  from.on('data', (chunk: Buffer) => {
    if (take(chunk.length) && !to.write(chunk)) from.pause();
  });
  to.on('drain', () => from.resume());
  from.on('end', () => to.end());
}
