// A manifest that could not be loaded, as lines: where, what, and what to do.
import type { ManifestProblem } from '../../../wire/agentd.ts';
import type { Paint } from '../out.ts';
import { plain } from './plain.ts';

export function problemLines(
  { file, line, message, hint }: ManifestProblem,
  paint: Paint,
  word: 'problem' | 'warning' = 'problem',
) {
  const place = line === null ? file : `${file}:${line}`;
  return [
    `${paint('yellow', word)}  ${plain(place)}: ${plain(message)}`,
    `${' '.repeat(9)}${plain(hint)}`,
  ];
}
