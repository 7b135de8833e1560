// Fills in the variables of a persona file: {{agent}}, {{description}}, {{role}}, {{purpose}} and
// {{label.NAME}}. \{{ is an opening pair of braces. Values are never read for variables again.
import type { FileProblem } from '../../../wire/primitives.ts';
import type { PersonaFile } from './persona-file.ts';

export type PersonaValues = {
  agent: string;
  description: string;
  role: string | null;
  purpose: string | null;
  labels: Readonly<Record<string, string>>;
};

const VARIABLE = /\\\{\{|\{\{([^{}\n]*)\}\}/g;
const KNOWN = 'agent, description, role, purpose, label.NAME';

function findValue(name: string, values: PersonaValues): string | undefined {
  const label = /^label\.(.+)$/.exec(name)?.[1];
  if (label !== undefined)
    return Object.hasOwn(values.labels, label) ? values.labels[label] : undefined;
  switch (name) {
    case 'agent':
    case 'description':
      return values[name];
    case 'role':
    case 'purpose':
      return values[name] ?? undefined;
    default:
      return undefined;
  }
}

export function fillIn(
  { file, body, bodyLine }: Pick<PersonaFile, 'file' | 'body' | 'bodyLine'>,
  values: PersonaValues,
): { text: string; problems: FileProblem[] } {
  const problems: FileProblem[] = [];
  const text = body.replace(VARIABLE, (written: string, name: string | undefined, at: number) => {
    if (name === undefined) return '{{';
    const value = findValue(name.trim(), values);
    if (value !== undefined) return value;
    const line = bodyLine + body.slice(0, at).split('\n').length - 1;
    problems.push({
      file,
      line,
      message: `agent ${values.agent} has no value for the variable ${written}`,
      hint: name.trim().startsWith('label.')
        ? 'Set it in metadata.labels of the manifest, or write \\{{ for braces.'
        : `Known variables: ${KNOWN}. Write \\{{ for braces.`,
    });
    return written;
  });
  return { text, problems };
}
