// Writes and reads a backup directory as a tar file, for `agentctl backup -`. Unpacked with any tar
// it is a backup directory. Reading accepts only the names that writing makes.
import { closeSync, createReadStream, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fault } from '../../../wire/errors.ts';
import {
  type BackupTarget,
  FORMAT_FILE,
  FORMAT_TEXT,
  formatManifestPath,
  formatObjectPath,
  spool,
} from './backup-dir.ts';
import { writeAll } from './manifest.ts';

const BLOCK_BYTES = 512;
/** The largest size in 11 octal digits; a larger one is binary, as GNU tar writes it. */
const OCTAL_MAX = 8 ** 11 - 1;
const CHECKSUM = { at: 148, bytes: 8 };
const HASH_PATH = 'objects/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}';
const NAMES = new RegExp(
  `^(agentd-backup\\.json|${HASH_PATH}|backups/backup_[0-9a-z]{26}\\.jsonl)$`,
);

function formatHeader(name: string, sizeBytes: number, mtimeMs: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  header.write(name, 0, 100);
  header.write('0000600\0', 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  if (sizeBytes <= OCTAL_MAX) header.write(`${sizeBytes.toString(8).padStart(11, '0')}\0`, 124);
  else {
    header.writeBigUInt64BE(BigInt(sizeBytes), 128);
    header[124] = 0x80;
  }
  header.write(
    `${Math.floor(mtimeMs / 1_000)
      .toString(8)
      .padStart(11, '0')}\0`,
    136,
  );
  header.write('0', 156);
  header.write('ustar\x0000', 257);
  header.write(`${checksum(header).toString(8).padStart(6, '0')}\0 `, CHECKSUM.at);
  return header;
}

/** The sum of all bytes, with spaces in place of the sum itself. */
function checksum(header: Buffer): number {
  let sum = 32 * CHECKSUM.bytes;
  header.forEach((byte, at) => {
    if (at < CHECKSUM.at || at >= CHECKSUM.at + CHECKSUM.bytes) sum += byte;
  });
  return sum;
}

/** A slow reader of a pipe that does not block makes a write fail with EAGAIN. */
function writeToPipe(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** `dir` keeps one object at a time: its name, the hash, precedes it in the tar file. */
export function openTarTarget(fd: number, dir: string): BackupTarget {
  const written = new Set<string>();
  const manifestFile = join(dir, 'manifest');
  const nowMs = Date.now();
  const writeFile = async (name: string, file: string, sizeBytes: number): Promise<void> => {
    writeToPipe(fd, formatHeader(name, sizeBytes, nowMs));
    let copied = 0;
    for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
      writeToPipe(fd, chunk as Buffer);
      copied += (chunk as Buffer).length;
    }
    if (copied !== sizeBytes) throw new Error(`${file} has ${copied} bytes, not ${sizeBytes}`);
    writeToPipe(fd, Buffer.alloc(-sizeBytes & (BLOCK_BYTES - 1)));
  };
  const writeText = (name: string, text: string): void => {
    const bytes = Buffer.from(text);
    writeToPipe(fd, formatHeader(name, bytes.length, nowMs));
    writeToPipe(fd, Buffer.concat([bytes, Buffer.alloc(-bytes.length & (BLOCK_BYTES - 1))]));
  };
  writeText(FORMAT_FILE, FORMAT_TEXT);
  return {
    manifestFile,
    has: ({ sha256 }) => written.has(sha256),
    async put(chunks) {
      const { file, ...object } = await spool(join(dir, 'object'), chunks);
      const isNew = !written.has(object.sha256);
      if (isNew) await writeFile(formatObjectPath(object.sha256), file, object.size_bytes);
      written.add(object.sha256);
      rmSync(file);
      return { ...object, isNew };
    },
    async commit(id) {
      const { statSync } = process.getBuiltinModule('node:fs');
      await writeFile(formatManifestPath(id), manifestFile, statSync(manifestFile).size);
      // Two empty blocks end a tar file.
      writeToPipe(fd, Buffer.alloc(2 * BLOCK_BYTES));
    },
    discard: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Unpacks a tar file into a new backup directory. */
export async function unpackTar(input: AsyncIterable<Buffer>, dir: string): Promise<void> {
  const reader = new BlockReader(input);
  let files = 0;
  for (;;) {
    const header = await reader.read(BLOCK_BYTES);
    if (header === undefined) throw tarFault('it ends too early');
    if (header.every((byte) => byte === 0)) break;
    const { name, sizeBytes } = parseHeader(header);
    const file = join(dir, name);
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const fd = openSync(file, 'wx', 0o600);
    try {
      for await (const chunk of reader.readMany(sizeBytes)) writeAll(fd, chunk);
    } finally {
      closeSync(fd);
    }
    const padding = -sizeBytes & (BLOCK_BYTES - 1);
    if (padding > 0 && (await reader.read(padding)) === undefined)
      throw tarFault('it ends too early');
    files += 1;
  }
  if (files === 0) throw tarFault('it is empty');
}

const tarFault = (why: string) =>
  fault('bad_usage', `standard input is not a backup: ${why}`, {
    hint: 'Pass the output of agentctl backup -, whole and decompressed.',
  });

function parseHeader(header: Buffer): { name: string; sizeBytes: number } {
  const text = (from: number, bytes: number) =>
    header.toString('latin1', from, from + bytes).replace(/[\0 ].*$/s, '');
  if (Number.parseInt(text(CHECKSUM.at, CHECKSUM.bytes).trim(), 8) !== checksum(header))
    throw tarFault('a header is damaged');
  const name = text(0, 100);
  if (!NAMES.test(name) || !['0', '\0'].includes(String.fromCharCode(header[156]!)))
    throw tarFault(`it has an entry '${name}'`);
  const isBinary = (header[124]! & 0x80) !== 0;
  const sizeBytes = isBinary
    ? Number(header.readBigUInt64BE(128))
    : Number.parseInt(text(124, 12), 8);
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) throw tarFault('a size is damaged');
  return { name, sizeBytes };
}

class BlockReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(input: AsyncIterable<Buffer>) {
    this.#chunks = input[Symbol.asyncIterator]();
  }

  /** Resolves to exactly this many bytes, or to undefined if the input ends before. */
  async read(bytes: number): Promise<Buffer | undefined> {
    const pieces: Buffer[] = [];
    let got = 0;
    while (got < bytes) {
      const piece = await this.#next(bytes - got);
      if (piece === undefined) return undefined;
      pieces.push(piece);
      got += piece.length;
    }
    return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  }

  async *readMany(bytes: number): AsyncGenerator<Buffer> {
    for (let left = bytes; left > 0; ) {
      const piece = await this.#next(left);
      if (piece === undefined) throw tarFault('it ends too early');
      left -= piece.length;
      yield piece;
    }
  }

  async #next(bytesMax: number): Promise<Buffer | undefined> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#chunks.next();
      if (done === true) return undefined;
      this.#rest = value;
    }
    const piece = this.#rest.subarray(0, bytesMax);
    this.#rest = this.#rest.subarray(bytesMax);
    return piece;
  }
}
