// Describes a directory tree to a person before it is deleted: every name, with hash or size and
// time. The same text means the same files.
import { createHash } from 'node:crypto';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import { reasonOf } from './limits.ts';

/** Entries that are listed; the others are counted and covered by one hash. */
const SHOWN_MAX = 2_000;
const SHOWN_CHARS_MAX = 900_000;
const ENTRIES_MAX = 50_000;
/** Total bytes that are hashed; files beyond it are identified by size and time. */
const HASHED_BYTES_MAX = 64 * 1024 * 1024;
const LIST_MAX = 2_000;

type Entry = { path: string; what: string };

export async function describeTree(box: Box, top: string): Promise<string> {
  const lines: string[] = [];
  const rest = createHash('sha256');
  let [count, chars] = [0, 0];
  for await (const { path, what } of entriesIn(box, top)) {
    if (++count > ENTRIES_MAX) throw tooMany(top);
    // Quoted, because a name may contain line ends.
    const line = `- ${JSON.stringify(path)} ${what}`;
    chars += line.length;
    if (count <= SHOWN_MAX && chars <= SHOWN_CHARS_MAX) lines.push(line);
    else rest.update(`${line}\n`);
  }
  const hidden = count - lines.length;
  const more = hidden === 0 ? [] : [`and ${hidden} more, together ${rest.digest('hex')}`];
  return [`${top}: everything in it, ${count} in all`, ...lines, ...more, ''].join('\n');
}

async function* entriesIn(box: Box, top: string): AsyncGenerator<Entry> {
  const budget = { bytes: HASHED_BYTES_MAX };
  const directories = [top];
  for (let dir = directories.shift(); dir !== undefined; dir = directories.shift()) {
    for (let after: string | null = ''; after !== null; ) {
      const ask = { op: 'list', path: dir, limit: LIST_MAX, after } as const;
      const page: { entries: Listed[]; next: string | null } = await box.files.perform(ask);
      for (const entry of page.entries) {
        const path = `${dir}/${entry.name}`;
        if (entry.kind === 'directory') directories.push(path);
        yield { path, what: await describe(box, { ...entry, path }, budget) };
      }
      after = page.next;
    }
  }
}

type Listed = { name: string; kind: string; size_bytes: number; modified_at: string };

async function describe(
  box: Box,
  { path, kind, size_bytes: size, modified_at }: Listed & { path: string },
  budget: { bytes: number },
): Promise<string> {
  // A directory's entries are listed, so its own time adds nothing.
  if (kind === 'directory') return '(directory)';
  const byTime = `(${kind}, ${size} bytes of ${modified_at})`;
  if (kind !== 'file' || size > budget.bytes) return byTime;
  budget.bytes -= size;
  try {
    const { sha256 } = await box.files.perform({ op: 'read', path, length: 0 });
    return sha256 === null ? byTime : `(${size} bytes, sha256 ${sha256})`;
  } catch (error) {
    // A file that may be deleted need not be readable.
    if (reasonOf(error) === undefined) throw error;
    return byTime;
  }
}

const tooMany = (top: string) =>
  fault('too_large', `${top} holds more than ${ENTRIES_MAX} files, too many to review`, {
    hint: 'Delete it in parts.',
  });
