// Finds the files below a directory that have certain bytes.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

export function findFiles(dir: string, bytes: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && readNow(path).includes(bytes)) found.push(relative(dir, path));
  }
  return found.sort();
}

/** A file of a process may be gone by now. */
function readNow(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}
