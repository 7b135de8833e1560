// Reads text from a file, or from standard input for `-`.
import { readFileSync } from 'node:fs';
import { fault } from '../../wire/errors.ts';

export function readInput(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('bad_usage', `${file === '-' ? 'standard input' : file} cannot be read (${code})`, {
      hint: 'Name an existing file that you may read.',
      cause,
    });
  }
}

export const readTextArgument = (word: string): string => (word === '-' ? readInput('-') : word);
