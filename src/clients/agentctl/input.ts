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

/** Asks on the terminal; without one, the command that needs no answer is the hint. */
export async function confirm(question: string, withoutAsking: string): Promise<void> {
  const { stdin, stderr } = process;
  if (!stdin.isTTY)
    throw fault('bad_usage', 'there is no terminal to ask on', { hint: `Use: ${withoutAsking}` });
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    const answer = await lines.question(`${question} [y/N] `);
    if (/^y(es)?$/i.test(answer.trim())) return;
  } finally {
    lines.close();
  }
  throw fault('canceled', 'it was not confirmed', { hint: 'Nothing was changed.' });
}

export const readTextArgument = (word: string): string => (word === '-' ? readInput('-') : word);
