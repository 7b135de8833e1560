// Encodes and decodes boxfs frames: the TypeScript twin of native/boxfs/boxfs.h. Responses come
// from inside a box, so every length in them is checked.
import { fault } from '../../../wire/errors.ts';
import type { FileAnswer, FileRequest } from '../../../wire/sandboxd/files.ts';
import { decodePath, encodePath } from './boxfs-paths.ts';

export const HEADER_BYTES = 16;
const MAGIC = 0x53465842;
const VERSION = 1;
export const FRAME_BYTES_MAX = (4 * 1024 + 64) * 1024;

export const OP = {
  hello: 1,
  stat: 2,
  read: 3,
  write: 4,
  list: 5,
  search: 6,
  delete: 7,
  mkdir: 8,
  changes: 9,
  readMany: 10,
  install: 11,
  watch: 12,
  unlock: 13,
  covered: 14,
  directories: 15,
  copy: 16,
  give: 17,
} as const;

export type FrameHeader = { length: number; id: number; status: number };
export type RootedPath = { root: number; path: string };

export class Fields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  #take(count: number): Buffer {
    const end = this.#at + count;
    if (end > this.#bytes.length) throw fault('bad_output', 'boxfs sent a frame that is too short');
    const part = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return part;
  }

  u8(): number {
    return this.#take(1).readUInt8(0);
  }
  u16(): number {
    return this.#take(2).readUInt16LE(0);
  }
  u32(): number {
    return this.#take(4).readUInt32LE(0);
  }
  u64(): number {
    return Number(this.#take(8).readBigUInt64LE(0));
  }
  bigint(): bigint {
    return this.#take(8).readBigUInt64LE(0);
  }
  /** Device and inode. */
  fileId(): string {
    const id = this.#take(16);
    return `${id.readBigUInt64LE(0)}:${id.readBigUInt64LE(8)}`;
  }
  hex(count: number): string {
    return this.#take(count).toString('hex');
  }
  /** For display: what is not UTF-8 is replaced. */
  text(): string {
    return this.#take(this.u16()).toString('utf8');
  }
  /** Lossless. */
  path(): string {
    return decodePath(this.#take(this.u16()));
  }
  data(): Buffer {
    return this.#take(this.u32());
  }
}

export const u8 = (value: number) => Buffer.from([value]);
export function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}
export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
export function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u16(bytes.length), bytes]);
}
export function pathField(path: string): Buffer {
  const bytes = encodePath(path);
  return Buffer.concat([u16(bytes.length), bytes]);
}
export function fileId(value: string | undefined): Buffer[] {
  if (value === undefined) return [];
  const bytes = Buffer.alloc(16);
  const [device, inode] = value.split(':').map(BigInt) as [bigint, bigint];
  bytes.writeBigUInt64LE(BigInt.asUintN(64, device), 0);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, inode), 8);
  return [bytes];
}
const flags = (...set: boolean[]) => u8(set.reduce((bits, on, at) => bits | (+on << at), 0));

function encodeFields(request: FileRequest): Buffer[] {
  switch (request.op) {
    case 'stat':
      return [];
    case 'read':
      return [flags(request.from_end, request.hash), u64(request.offset), u32(request.length)];
    case 'write': {
      const data = Buffer.from(request.content, request.encoding);
      const expected = request.expected_sha256;
      return [
        flags(
          request.create_only,
          expected !== undefined,
          request.make_parents,
          request.executable,
          request.expected_parent !== undefined,
        ),
        expected === undefined ? Buffer.alloc(32) : Buffer.from(expected, 'hex'),
        u32(data.length),
        data,
        ...fileId(request.expected_parent),
      ];
    }
    case 'list':
      return [u32(request.limit), text(request.after)];
    case 'search':
      return [
        u8(['names', 'literal', 'regex'].indexOf(request.mode)),
        flags(request.ignore_case, request.everywhere),
        u32(request.results_max),
        u32(request.limit_ms),
        text(request.pattern),
        text(request.glob),
      ];
    case 'delete': {
      const { recursive, expected_sha256: expected, expected_parent: parent, limit_ms } = request;
      const hash = expected === undefined ? [] : [Buffer.from(expected, 'hex')];
      const bits = flags(recursive, expected !== undefined, parent !== undefined);
      return [bits, u32(limit_ms), ...hash, ...fileId(parent)];
    }
    case 'mkdir':
      return [flags(request.make_parents)];
  }
}

export function frame(op: number, id: number, parts: Buffer[]): Buffer {
  const payload = Buffer.concat(parts);
  if (payload.length > FRAME_BYTES_MAX)
    throw fault('too_large', `${payload.length} bytes exceed the maximum of one write`);
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeUInt32LE(MAGIC, 0);
  head.writeUInt32LE(payload.length, 4);
  head.writeUInt32LE(id, 8);
  head[12] = op;
  head[13] = VERSION;
  return Buffer.concat([head, payload]);
}

export const encodeHello = (id: number): Buffer => frame(OP.hello, id, []);

/** `isLossless`: the path is one that boxfs has listed, and may be of bytes that are not UTF-8. */
export function encodeRequest(
  id: number,
  request: FileRequest,
  { root, path, isLossless = false }: RootedPath & { isLossless?: boolean },
): Buffer {
  return frame(OP[request.op], id, [
    u16(root),
    isLossless ? pathField(path) : text(path),
    ...encodeFields(request),
  ]);
}

export function decodeHeader(bytes: Buffer): FrameHeader {
  const [magic, length] = [bytes.readUInt32LE(0), bytes.readUInt32LE(4)];
  if (magic !== MAGIC || bytes[13] !== VERSION || length > FRAME_BYTES_MAX)
    throw fault('bad_output', 'boxfs speaks another protocol version');
  return { length, id: bytes.readUInt32LE(8), status: bytes[12] ?? 0 };
}

const KINDS = ['other', 'file', 'directory', 'link', 'other'] as const;
const CUTS = [null, 'results', 'time', 'names'] as const;
const readKind = (fields: Fields) => KINDS[fields.u8()] ?? 'other';

const TIME_MS_MAX = 8.64e15;
const readTime = (fields: Fields) =>
  new Date(Math.min(Math.floor(fields.u64() / 1e6), TIME_MS_MAX)).toISOString();
/** A size from a box is untrusted; it is capped at the largest safe integer. */
const readSize = (fields: Fields) => Math.min(fields.u64(), Number.MAX_SAFE_INTEGER);

const readStat = (fields: Fields) => ({
  mode: fields.u32(),
  size_bytes: readSize(fields),
  modified_at: readTime(fields),
});

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Counts the bytes of an incomplete UTF-8 character at the end. */
function countPartialBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if ((byte & 0xc0) === 0x80) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? back : 0;
  }
  return 0;
}

/** Decodes as text if valid, else base64. Partial characters at either end are dropped. */
function decodeContent(data: Buffer, offset: number, isEnd: boolean) {
  let from = 0;
  while (offset > 0 && from < Math.min(3, data.length) && (data[from]! & 0xc0) === 0x80) from++;
  const part = data.subarray(from, isEnd ? data.length : data.length - countPartialBytes(data));
  try {
    const content = decoder.decode(part);
    if (!content.includes('\0'))
      return { offset: offset + from, bytes: part.length, encoding: 'utf8' as const, content };
  } catch {
    // Not text.
  }
  const content = data.toString('base64');
  return { offset, bytes: data.length, encoding: 'base64' as const, content };
}

function decodeRead(fields: Fields, request: FileRequest & { op: 'read' }): FileAnswer {
  fields.u8();
  const stat = readStat(fields);
  const real_path = fields.text();
  const hashed = fields.u8() === 1;
  const sha256 = fields.hex(32);
  const offset = readSize(fields);
  const data = fields.data();
  if (data.length > request.length)
    throw fault('bad_output', 'boxfs returned more data than requested');
  const isEnd = offset + data.length >= stat.size_bytes;
  return {
    op: 'read',
    ...stat,
    real_path,
    sha256: hashed ? sha256 : null,
    ...decodeContent(data, offset, isEnd),
  };
}

function decodeList(fields: Fields): FileAnswer {
  const more = fields.u8() === 1;
  const count = fields.u32();
  const entries = [];
  for (let i = 0; i < count; i++) {
    const kind = readKind(fields);
    entries.push({ kind, ...readStat(fields), name: fields.text() });
  }
  return { op: 'list', entries, next: more ? (entries.at(-1)?.name ?? null) : null };
}

function decodeSearch(fields: Fields): FileAnswer {
  const cut = CUTS[fields.u8()] ?? null;
  const [files, binary, unreadable] = [fields.u32(), fields.u32(), fields.u32()];
  const count = fields.u32();
  const matches = [];
  for (let i = 0; i < count; i++) {
    const [line, column] = [fields.u32(), fields.u32()];
    matches.push({ path: fields.text(), line, column, text: fields.text() });
  }
  return { op: 'search', matches, cut, files, binary, unreadable };
}

export function decodeResponse(request: FileRequest, fields: Fields): FileAnswer {
  switch (request.op) {
    case 'stat': {
      const kind = readKind(fields);
      const found = { op: 'stat' as const, kind, ...readStat(fields) };
      return { ...found, real_path: fields.text(), file_id: fields.fileId() };
    }
    case 'read':
      return decodeRead(fields, request);
    case 'write': {
      const [created, unchanged] = [fields.u8() === 1, fields.u8() === 1];
      const [size_bytes, modified_at] = [readSize(fields), readTime(fields)];
      return { op: 'write', created, unchanged, size_bytes, modified_at, sha256: fields.hex(32) };
    }
    case 'list':
      return decodeList(fields);
    case 'search':
      return decodeSearch(fields);
    case 'delete':
      return { op: 'delete', deleted: fields.u32(), complete: fields.u8() === 0 };
    case 'mkdir':
      return { op: 'mkdir', created: fields.u8() === 1 };
  }
}
