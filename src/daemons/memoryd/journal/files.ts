// The files of the journal, one per day: their names, and reading them line by line.
import { createReadStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { decodeEntry, type JournalEntry } from './entry.ts';

const DAY = /^(\d{4}-\d\d-\d\d)\.jsonl$/;
const NEWLINE = 10;

export const fileOfDay = (dir: string, day: string): string => join(dir, `${day}.jsonl`);

/** The days that have a file, oldest first. */
export function listDays(dir: string): string[] {
  return readdirSync(dir)
    .flatMap((name) => DAY.exec(name)?.[1] ?? [])
    .sort();
}

export type JournalLine = {
  day: string;
  /** From 1. */
  line: number;
  /** Where it begins and ends in the file, its end of line included. */
  from: number;
  to: number;
  /** Undefined: the line is damaged. */
  entry: JournalEntry | undefined;
};

/** Reads the lines of a file that have an end; what follows the last end is no line yet. */
export async function* readLines(dir: string, day: string): AsyncGenerator<JournalLine> {
  let rest: Buffer[] = [];
  let line = 0;
  let from = 0;
  try {
    for await (const chunk of createReadStream(fileOfDay(dir, day)) as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        const bytes = Buffer.concat([...rest, chunk.subarray(start, end)]);
        rest = [];
        start = end + 1;
        const to = from + bytes.length + 1;
        yield { day, line: ++line, from, to, entry: decodeEntry(bytes.toString('utf8')) };
        from = to;
      }
      rest.push(chunk.subarray(start));
    }
  } catch (error) {
    throw storageFault(`reading the journal of ${day}`, error);
  }
}
