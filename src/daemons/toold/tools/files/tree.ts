// A directory with everything in it, as a person is shown it before it is deleted: every name, and
// what tells its content from another. The same text again means the same files.
import { createHash } from 'node:crypto';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import { reasonOf } from './limits.ts';

/** How many are written out; the others are counted, and bound by what they amount to. */
const SHOWN_MAX = 2_000;
const SHOWN_CHARS_MAX = 900_000;
const ENTRIES_MAX = 50_000;
/** What is hashed to tell files apart; what is beyond it is told by size and time. */
const HASHED_BYTES_MAX = 64 * 1024 * 1024;
const LIST_MAX = 2_000;

type Entry = { path: string; what: string };

export async function describeTree(box: Box, top: string): Promise<string> {
  const lines: string[] = [];
  const rest = createHash('sha256');
  let [count, chars] = [0, 0];
  for await (const { path, what } of entriesIn(box, top)) {
    if (++count > ENTRIES_MAX) throw tooMany(top);
    // A name may hold line ends, and must not pass for several.
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
  const left = { bytes: HASHED_BYTES_MAX };
  const directories = [top];
  for (let dir = directories.shift(); dir !== undefined; dir = directories.shift()) {
    for (let after: string | null = ''; after !== null; ) {
      const ask = { op: 'list', path: dir, limit: LIST_MAX, after } as const;
      const page: { entries: Listed[]; next: string | null } = await box.files.perform(ask);
      for (const entry of page.entries) {
        const path = `${dir}/${entry.name}`;
        if (entry.kind === 'directory') directories.push(path);
        yield { path, what: await describe(box, { ...entry, path }, left) };
      }
      after = page.next;
    }
  }
}

type Listed = { name: string; kind: string; size_bytes: number; modified_at: string };

async function describe(
  box: Box,
  { path, kind, size_bytes: size, modified_at }: Listed & { path: string },
  left: { bytes: number },
): Promise<string> {
  // What is in a directory is listed; its own time says nothing more.
  if (kind === 'directory') return '(directory)';
  const byTime = `(${kind}, ${size} bytes of ${modified_at})`;
  if (kind !== 'file' || size > left.bytes) return byTime;
  left.bytes -= size;
  try {
    const { sha256 } = await box.files.perform({ op: 'read', path, length: 0 });
    return sha256 === null ? byTime : `(${size} bytes, sha256 ${sha256})`;
  } catch (error) {
    // Whoever may delete it need not be able to read it.
    if (reasonOf(error) === undefined) throw error;
    return byTime;
  }
}

const tooMany = (top: string) =>
  fault('too_large', `${top} holds more than ${ENTRIES_MAX} files, which nobody can look at`, {
    hint: 'Delete parts of it, one after the other.',
  });
