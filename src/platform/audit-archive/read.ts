// Reads an archive of an audit segment: its first line, or all lines.
import { createReadStream } from 'node:fs';
import { createGunzip } from 'node:zlib';
import { fault } from '../../wire/errors.ts';

/** The part of an archive's first line that identifies its segment. */
type ArchiveIdentity = { origin: string; first: number; end: number; hashes: string[] };

/** Not by readline, which also splits at other characters than the newline. */
export async function* readLines(file: string): AsyncGenerator<string> {
  const unpacked = createGunzip();
  const input = createReadStream(file);
  input.once('error', (error) => unpacked.destroy(error));
  let rest: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of input.pipe(unpacked) as AsyncIterable<Buffer>) {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let start = 0;
      for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
        yield bytes.toString('utf8', start, end);
        start = end + 1;
      }
      rest = bytes.subarray(start);
    }
  } finally {
    input.destroy();
  }
}

export async function readArchiveHeader(file: string): Promise<ArchiveIdentity> {
  for await (const line of readLines(file)) return JSON.parse(line) as ArchiveIdentity;
  throw fault('bad_request', `${file} is empty`);
}
