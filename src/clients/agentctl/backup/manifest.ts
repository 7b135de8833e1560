// The manifest of a backup: lines of JSON. The first describes the backup, each following one an
// entry of the state directory, and the last has the hash of all lines before it. A manifest
// without that last line is unfinished.
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { fault } from '../../../wire/errors.ts';

export const FORMAT = 1;

export type BackupHeader = {
  type: 'backup';
  format: number;
  id: string;
  /** The instant that databases and log are of. */
  taken_at: string;
  version: string;
  /** True when the runtime worked meanwhile. */
  running: boolean;
  /** The user that made the backup, and the one who owned the state directory. */
  made_by: number;
  uid: number;
  gid: number;
  /** The log ends here. */
  checkpoint: { size: number; root: string; note: string };
};

/** Text, or base64 for a name that is not UTF-8. */
export type PathField = { path: string } | { path_base64: string };
export type Owner = { mode: number; uid: number; gid: number };
/** The attributes that an overlay gives a directory of its upper layer. */
export type OverlayMarks = {
  /** `trusted` where the warden was root. */
  space: 'trusted' | 'user';
  /** It hides the directory below. */
  opaque?: true;
  /** It was renamed: the path of the directory below. */
  redirect_base64?: string;
};
export type StoredObject = { sha256: string; size_bytes: number };
/** A different `stamp` means that the file has changed: then its content is read again. */
export type FileEntry = { type: 'file'; stamp: string; mtime_ms: number } & PathField &
  Owner &
  StoredObject;
export type BackupEntry =
  | FileEntry
  | ({ type: 'database' } & PathField & StoredObject)
  /** An artifact: its hash is its name. */
  | ({ type: 'artifact' } & StoredObject)
  | ({ type: 'dir'; overlay?: OverlayMarks } & PathField & Owner)
  /** In a layer: agents have deleted what is below. */
  | ({ type: 'whiteout' } & PathField & Pick<Owner, 'uid' | 'gid'>)
  | ({ type: 'link'; target_base64: string } & PathField & Pick<Owner, 'uid' | 'gid'>)
  /** The files of a task tree; `changed` if they are newer than the databases. */
  | ({ type: 'tree'; changed: boolean } & PathField)
  | ({ type: 'skipped'; reason: string } & PathField);

export type BackupEnd = {
  type: 'end';
  entries: number;
  /** Bytes of all files, databases and artifacts. */
  size_bytes: number;
  /** Uids that own entries. */
  owners: number[];
  sha256: string;
};

export function toPathField(path: Buffer): PathField {
  const text = path.toString('utf8');
  return Buffer.from(text).equals(path) ? { path: text } : { path_base64: path.toString('base64') };
}

export const readPathField = (field: PathField): Buffer =>
  'path' in field ? Buffer.from(field.path) : Buffer.from(field.path_base64, 'base64');

/** For people. */
export const showPath = (field: PathField): string =>
  'path' in field ? field.path : readPathField(field).toString('latin1');

export class ManifestWriter {
  readonly #fd: number;
  readonly #hash = createHash('sha256');
  readonly #owners = new Set<number>();
  #lines: string[] = [];
  #pendingChars = 0;
  #entries = 0;
  #sizeBytes = 0;

  constructor(file: string, header: BackupHeader) {
    this.#fd = openSync(file, 'wx', 0o600);
    this.#push(header);
  }

  add(entry: BackupEntry): void {
    this.#entries += 1;
    if ('size_bytes' in entry) this.#sizeBytes += entry.size_bytes;
    if ('uid' in entry) this.#owners.add(entry.uid);
    this.#push(entry);
  }

  /** Writes the last line durably. */
  end(): BackupEnd {
    this.#flush();
    const end: BackupEnd = {
      type: 'end',
      entries: this.#entries,
      size_bytes: this.#sizeBytes,
      owners: [...this.#owners].sort((a, b) => a - b),
      sha256: this.#hash.digest('hex'),
    };
    writeAll(this.#fd, Buffer.from(`${JSON.stringify(end)}\n`));
    fsyncSync(this.#fd);
    this.close();
    return end;
  }

  close(): void {
    closeSync(this.#fd);
  }

  #push(line: BackupHeader | BackupEntry): void {
    const text = `${JSON.stringify(line)}\n`;
    this.#lines.push(text);
    this.#pendingChars += text.length;
    if (this.#pendingChars >= CHUNK_BYTES) this.#flush();
  }

  #flush(): void {
    const bytes = Buffer.from(this.#lines.join(''));
    this.#lines = [];
    this.#pendingChars = 0;
    this.#hash.update(bytes);
    writeAll(this.#fd, bytes);
  }
}

export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
}

const CHUNK_BYTES = 1 << 18;
const LINE_BYTES_MAX = 1 << 20;

/** Returns the first and the last line. Throws when one of them is not there. */
export function readSummary(file: string): { header: BackupHeader; end: BackupEnd } {
  const fd = openSync(file, 'r');
  try {
    const { size } = fstatSync(fd);
    const first = Buffer.alloc(Math.min(size, LINE_BYTES_MAX));
    readSync(fd, first, 0, first.length, 0);
    const last = Buffer.alloc(first.length);
    readSync(fd, last, 0, last.length, size - last.length);
    const lines = last.toString('utf8').trimEnd().split('\n');
    const header = parseLine(first.toString('utf8').split('\n', 1)[0]!, 'backup', file);
    const end = parseLine(lines.at(-1)!, 'end', file);
    if (header.format > FORMAT)
      throw fault('state_newer', `${file} was written by a newer agentd (format ${header.format})`);
    return { header, end };
  } finally {
    closeSync(fd);
  }
}

type Lines = { backup: BackupHeader; end: BackupEnd };

function parseLine<T extends keyof Lines>(text: string, type: T, file: string): Lines[T] {
  const value = parseJson(text) as { type?: unknown } | undefined;
  if (value?.type === type) return value as Lines[T];
  throw manifestFault(
    file,
    type === 'end' ? 'its last line is missing' : 'its first line is damaged',
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const manifestFault = (file: string, why: string) =>
  fault('storage_broken', `the manifest ${file} is damaged: ${why}`, {
    hint: 'Use another backup: agentctl backup list DIR.',
  });

/** Yields the entries in order. All lines are verified first: a damaged one could mean anything. */
export function* readEntries(file: string): Generator<BackupEntry> {
  verifyLines(file);
  let isFirst = true;
  for (const line of readLines(file)) {
    const value = JSON.parse(line) as BackupEntry | BackupEnd;
    if (value.type === 'end') break;
    if (!isFirst) yield value;
    isFirst = false;
  }
}

function verifyLines(file: string): void {
  const { end } = readSummary(file);
  const hash = createHash('sha256');
  let entries = -1;
  for (const line of readLines(file)) {
    const value = parseJson(line) as { type?: unknown } | undefined;
    if (value === undefined) throw manifestFault(file, `line ${entries + 2} is not JSON`);
    if (value.type === 'end') break;
    hashLine(hash, line);
    entries += 1;
  }
  if (entries !== end.entries)
    throw manifestFault(file, `it has ${entries} entries and should have ${end.entries}`);
  if (hash.digest('hex') !== end.sha256)
    throw manifestFault(file, 'its lines do not have the hash in its last line');
}

function hashLine(hash: Hash, line: string): void {
  hash.update(line);
  hash.update('\n');
}

function* readLines(file: string): Generator<string> {
  const fd = openSync(file, 'r');
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    let rest = Buffer.alloc(0);
    for (let n = readSync(fd, chunk); n > 0; n = readSync(fd, chunk)) {
      const bytes = Buffer.concat([rest, chunk.subarray(0, n)]);
      let start = 0;
      for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, start)) {
        yield bytes.toString('utf8', start, at);
        start = at + 1;
      }
      rest = bytes.subarray(start);
      if (rest.length > LINE_BYTES_MAX) throw manifestFault(file, 'it has a line that is too long');
    }
    if (rest.length > 0) yield rest.toString('utf8');
  } finally {
    closeSync(fd);
  }
}
