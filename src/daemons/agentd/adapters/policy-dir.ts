// Reads and watches the directory of the site's rules. policy/publisher.ts decides which files are
// in force.
import { readFileSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../platform/clock.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { watchDir } from '../../../platform/watch-dir.ts';
import { isSiteFileName, SITE_FILE_BYTES_MAX } from '../../../policy/site.ts';
import type { FileProblem } from '../../../wire/primitives.ts';

export type PolicyReading = {
  /** Sorted by name. */
  files: { file: string; text: string }[];
  /** Files that could not be read. They exist, so their previous version stays in force. */
  unread: FileProblem[];
};

export type PolicyDir = { read(): Promise<PolicyReading>; stop(): void };

const POLL_INTERVAL_MS = 500;
const OTHERS_WRITE = 0o002;

/** Calls `onChange` when a file may have changed. A missing directory has no rules. */
export function followPolicyDir(dir: string, clock: Clock, onChange: () => void): PolicyDir {
  let stamp = '';
  let stopped = false;
  const withLock = makeMutex();
  const poll = (): Promise<void> =>
    withLock(async () => {
      const now = await readStamp(dir);
      if (stopped || now === stamp) return;
      stamp = now;
      onChange();
    });
  let followed: { close(): void } | undefined;
  return {
    async read() {
      followed ??= watchDir({
        dir,
        clock,
        settleMs: 0,
        pollIntervalMs: POLL_INTERVAL_MS,
        onChange: (why) => (why === 'event' ? onChange() : void poll()),
      });
      stamp = await readStamp(dir);
      return readAll(dir);
    },
    stop() {
      stopped = true;
      followed?.close();
    },
  };
}

async function listNames(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).filter((name) => /^[^.].*\.cedar$/.test(name)).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function readStamp(dir: string): Promise<string> {
  try {
    const names = await listNames(dir);
    const stats = names.map((name) => {
      const stat = statSync(join(dir, name), { bigint: true, throwIfNoEntry: false });
      return `${name} ${stat?.ino} ${stat?.mtimeNs} ${stat?.ctimeNs} ${stat?.size}`;
    });
    return stats.join('\n');
  } catch (error) {
    return (error as Error).message;
  }
}

async function readAll(dir: string): Promise<PolicyReading> {
  const reading: PolicyReading = { files: [], unread: [] };
  for (const file of await listNames(dir)) {
    const problem = readInto(reading, dir, file);
    if (problem !== undefined) reading.unread.push({ file, line: null, ...problem });
  }
  return reading;
}

function readInto(
  { files }: PolicyReading,
  dir: string,
  file: string,
): { message: string; hint: string } | undefined {
  if (!isSiteFileName(file))
    return {
      message: 'not a valid name for a rule file',
      hint: 'Use letters, digits, dots and dashes, as in 10-prod.cedar.',
    };
  const path = join(dir, file);
  try {
    const stat = statSync(path);
    if (!stat.isFile()) return { message: 'not a regular file', hint: 'Remove it.' };
    if (stat.size > SITE_FILE_BYTES_MAX)
      return { message: `has ${stat.size} bytes`, hint: `Keep it below ${SITE_FILE_BYTES_MAX}.` };
    // Write access to the rules is equivalent to full control.
    if ((stat.mode & OTHERS_WRITE) !== 0)
      return { message: 'can be written by any user', hint: `chmod o-w ${path}` };
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    files.push({ file, text: text.decode(readFileSync(path)) });
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    return { message: `cannot be read: ${message}`, hint: 'Make it a readable UTF-8 file.' };
  }
}
