// One line that says who an agent is: "Role (persona) - Purpose". It fits into one field of the
// password file, where a colon would end the field.
import type { DeclaredAgent } from '../manifests/read-manifest.ts';

const CHARS_MAX = 250;

export function summarizeAgent({
  name,
  description,
  composed,
}: Pick<DeclaredAgent, 'name' | 'description' | 'composed'>): string {
  const persona = composed?.persona ?? null;
  const title = composed?.role ?? name;
  const purpose = composed?.purpose ?? description;
  const head = persona === null ? title : `${title} (${persona})`;
  const line = purpose === '' ? head : `${head} - ${purpose}`;
  return line
    .replace(/[:\p{Cc}]+/gu, ' ')
    .replace(/ +/g, ' ')
    .slice(0, CHARS_MAX)
    .trim();
}
