// Rotates log files that other processes have open for appending: copies what there is, then
// empties the file. Renaming it instead would leave every writer with the old one.
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

const LOG = /^[a-z-]+\.log$/;
const OLD_LOG = /^([a-z-]+\.log)\.(\d+)$/;
const UNFINISHED = '.tmp';
const CHUNK_BYTES = 1 << 20;

export type LogLimits = {
  /** A log of this size is rotated. */
  sizeBytesMax: number;
  /** Old files kept of each log. */
  filesMax: number;
};

/** Resolves to the names of the logs that were rotated; throws after all, if one could not be. */
export async function rotateLogs(dir: string, limits: LogLimits): Promise<string[]> {
  const names = await readdir(dir).catch(ignoreMissing);
  if (names === undefined) return [];
  for (const name of names) {
    const number = Number(OLD_LOG.exec(name)?.[2] ?? 0);
    if (number > limits.filesMax || name.endsWith(UNFINISHED)) await rm(join(dir, name));
  }
  const rotated: string[] = [];
  const errors: unknown[] = [];
  for (const name of names.filter((one) => LOG.test(one))) {
    try {
      if (await rotate(join(dir, name), limits)) rotated.push(name);
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return rotated;
}

async function rotate(file: string, { sizeBytesMax, filesMax }: LogLimits): Promise<boolean> {
  const fd = openSync(file, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    const { size } = fstatSync(fd);
    if (size < sizeBytesMax) return false;
    const copy = `${file}${UNFINISHED}`;
    const copied = await copyStart(fd, copy, size);
    for (let n = filesMax; n > 1; n--)
      await rename(`${file}.${n - 1}`, `${file}.${n}`).catch(ignoreMissing);
    // In one turn, so that no line of this process is lost; other processes write rarely.
    appendRest(fd, copy, copied);
    ftruncateSync(fd, 0);
    await rename(copy, `${file}.1`);
    return true;
  } finally {
    closeSync(fd);
  }
}

async function copyStart(fd: number, copy: string, size: number): Promise<number> {
  const target = await open(copy, 'w', 0o600);
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let at = 0;
  try {
    while (at < size) {
      const n = readSync(fd, chunk, 0, CHUNK_BYTES, at);
      if (n === 0) break;
      await target.write(chunk, 0, n);
      at += n;
    }
  } finally {
    await target.close();
  }
  return at;
}

function appendRest(fd: number, copy: string, from: number): void {
  const target = openSync(copy, 'a');
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  try {
    for (let at = from; ; ) {
      const n = readSync(fd, chunk, 0, CHUNK_BYTES, at);
      if (n === 0) return;
      writeSync(target, chunk, 0, n);
      at += n;
    }
  } finally {
    closeSync(target);
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
