// Reads the last error from the end of the runtime's log.
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { toOneLine } from '../show/plain.ts';
import { truncate } from '../show/width.ts';

const TAIL_BYTES = 16_384;

/** Returns the last error, else the last line, after offset `from`. */
export function readLastError({ file, from }: { file: string; from: number }): string | undefined {
  const lines = readEnd(file, from)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const parsed = lines.map(parseLine);
  const entry = parsed.findLast(({ level }) => level === 'error') ?? parsed.at(-1);
  return entry === undefined ? undefined : truncate(toOneLine(entry.message), 300);
}

function parseLine(line: string): { level: string; message: string } {
  try {
    const { level, message } = JSON.parse(line) as { level?: string; message?: string };
    return { level: level ?? '', message: message ?? line };
  } catch {
    // Not a log line: a crash of Node itself.
    return { level: /^\w*Error\b/.test(line) ? 'error' : '', message: line };
  }
}

function readEnd(file: string, from: number): string {
  const size = statSync(file).size;
  const start = Math.max(from, size - TAIL_BYTES);
  const buffer = Buffer.alloc(Math.max(0, size - start));
  const fd = openSync(file, 'r');
  try {
    return buffer.toString('utf8', 0, readSync(fd, buffer, 0, buffer.length, start));
  } finally {
    closeSync(fd);
  }
}
