// Something wrong in a file that a person wrote, as lines: where, what, and what to do.
import type { FileProblem } from '../../../wire/primitives.ts';
import type { Paint } from '../out.ts';
import { plain } from './plain.ts';

export function problemLines(
  { file, line, message, hint }: FileProblem,
  paint: Paint,
  word: 'problem' | 'warning' = 'problem',
) {
  const place = line === null ? file : `${file}:${line}`;
  return [
    `${paint('yellow', word)}  ${plain(place)}: ${plain(message)}`,
    `${' '.repeat(9)}${plain(hint)}`,
  ];
}
