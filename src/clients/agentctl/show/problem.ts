// Renders a problem in a configuration file: location, message and hint.
import type { FileProblem } from '../../../wire/primitives.ts';
import type { Paint } from '../out.ts';
import { replaceControls } from './plain.ts';

export function renderProblem(
  { file, line, message, hint }: FileProblem,
  paint: Paint,
  heading: 'problem' | 'warning' = 'problem',
) {
  const location = line === null ? file : `${file}:${line}`;
  return [
    `${paint('yellow', heading)}  ${replaceControls(location)}: ${replaceControls(message)}`,
    `${' '.repeat(9)}${replaceControls(hint)}`,
  ];
}
