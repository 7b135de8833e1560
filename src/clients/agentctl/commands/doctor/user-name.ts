// The name of a uid, for people.
import { readFileSync } from 'node:fs';

export function userName(uid: number): string {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
    const found = lines.map((line) => line.split(':')).find(([, , id]) => id === String(uid));
    if (found?.[0] !== undefined) return `${found[0]} (uid ${uid})`;
  } catch {
    // Then the number has to do.
  }
  return `uid ${uid}`;
}
