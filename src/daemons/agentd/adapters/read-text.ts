// Reads a text file of an operator: whole or not at all, and never one that any user can write to,
// because what it says becomes an agent's orders.
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { FileProblem } from '../../../wire/primitives.ts';

export type TextReading = { ok: true; text: string } | { ok: false; problem: FileProblem };

const OTHERS_WRITE = 0o002;

/** Resolves to undefined if there is no such file. */
export async function readTextFile(
  file: string,
  { bytesMax, followLinks = true }: { bytesMax: number; followLinks?: boolean },
): Promise<TextReading | undefined> {
  const refuse = (message: string, hint: string, line: number | null = null): TextReading => ({
    ok: false,
    problem: { file, line, message, hint },
  });
  let handle: FileHandle | undefined;
  try {
    // Without O_NONBLOCK, opening a named pipe would block until it has a writer.
    const flags = constants.O_RDONLY | constants.O_NONBLOCK;
    handle = await open(file, followLinks ? flags : flags | constants.O_NOFOLLOW);
    const stats = await handle.stat();
    if (!stats.isFile()) return refuse('not a regular file', 'Remove it.');
    if ((stats.mode & OTHERS_WRITE) !== 0)
      return refuse('any user can write to it', `chmod o-w ${file}`);
    if (stats.size > bytesMax)
      return refuse(`has ${stats.size} bytes; at most ${bytesMax} are read`, 'Shorten it.');
    const bytes = Buffer.alloc(bytesMax + 1);
    let length = 0;
    for (let last = -1; last !== 0 && length < bytes.length; length += last)
      last = (await handle.read(bytes, length, bytes.length - length, length)).bytesRead;
    if (length > bytesMax) return refuse(`has more than ${bytesMax} bytes`, 'Shorten it.');
    return decode(bytes.subarray(0, length), refuse);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP') return refuse('is a symbolic link', 'Put the file itself there.');
    return refuse(`cannot be read: ${message}`, 'Make it readable for agentd, or remove it.');
  } finally {
    await handle?.close();
  }
}

type Refuse = (message: string, hint: string, line?: number | null) => TextReading;

function decode(bytes: Buffer, refuse: Refuse): TextReading {
  const asText = (part: Uint8Array): string =>
    new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(part);
  let text: string;
  try {
    text = asText(bytes);
  } catch {
    return refuse('not valid UTF-8', 'Save the file as UTF-8 text.', findBadLine(bytes, asText));
  }
  const nul = text.indexOf('\0');
  if (nul < 0) return { ok: true, text };
  const line = text.slice(0, nul).split('\n').length;
  return refuse('contains a NUL character', 'Save the file as plain text.', line);
}

/** No byte of a longer UTF-8 sequence is a line feed, so that lines can be read one by one. */
function findBadLine(bytes: Buffer, asText: (part: Uint8Array) => string): number {
  let line = 1;
  for (let from = 0; from < bytes.length; line++) {
    const end = bytes.indexOf(10, from);
    const to = end < 0 ? bytes.length : end;
    try {
      asText(bytes.subarray(from, to));
    } catch {
      return line;
    }
    from = to + 1;
  }
  return line;
}
