// Text from a file or from standard input, where people write `-`.
import { readFileSync } from 'node:fs';
import { fault } from '../../wire/errors.ts';

export function readInput(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('bad_usage', `${file === '-' ? 'standard input' : file} cannot be read (${code})`, {
      hint: 'Name a file that exists and that you may read.',
      cause,
    });
  }
}

/** A word of the command line, or standard input when it is `-`. */
export const readTextArgument = (word: string): string => (word === '-' ? readInput('-') : word);
