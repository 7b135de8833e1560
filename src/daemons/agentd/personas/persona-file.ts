// Parses a persona file: front matter with what people and agentd read, a body with what the model
// reads. adapters/persona-dirs.ts reads the files, compose.ts puts them together.
import * as z from 'zod';
import { splitFrontMatter } from '../../../platform/front-matter.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { readYaml } from '../../../platform/yaml-file.ts';
import type { PersonaSource } from '../../../wire/agentd/personas.ts';
import { PersonaRef } from '../../../wire/manifest.ts';
import type { FileProblem } from '../../../wire/primitives.ts';

export const PERSONA_BYTES_MAX = 65_536;

/** It ends up in one line of the password file's format, where colons separate fields. */
const oneLine = (charsMax: number) =>
  z
    .string()
    .min(1)
    .max(charsMax)
    .regex(/^[^:\p{Cc}]*$/u, 'must be one line without a colon');

const Front = z.strictObject({
  role: oneLine(64).optional(),
  purpose: oneLine(200).optional(),
  /** Capabilities it expects; `agent create --persona` allows these. Nothing else does. */
  tools: z
    .array(z.string().regex(/^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/, 'must look like git.read'))
    .max(64)
    .optional(),
  /** Words of the goals that are for it, by which a task without an agent finds one. */
  topics: z.array(oneLine(64)).max(200).optional(),
  extends: z.array(PersonaRef).max(16).optional(),
  /** Takes the place of the same layer of the package, or of the site. */
  replace: z.boolean().optional(),
});
export type PersonaFront = z.output<typeof Front>;

export type PersonaFile = {
  source: PersonaSource;
  file: string;
  front: PersonaFront;
  /** The line of each reference of `extends`. */
  extendsLine: number | null;
  body: string;
  /** The line of the file at which the body starts. */
  bodyLine: number;
  /** The hash of the whole file, as `sha256sum` prints it. */
  sha256: string;
};
export type PersonaResult =
  | { ok: true; persona: PersonaFile }
  | { ok: false; problems: FileProblem[] };

export function readPersona(text: string, source: PersonaSource, file: string): PersonaResult {
  const refuse = (line: number | null, message: string, hint: string): PersonaResult => ({
    ok: false,
    problems: [{ file, line, message, hint }],
  });
  const split = splitFrontMatter(text);
  if (split === undefined)
    return refuse(1, 'the front matter is not closed', 'Close it with a line of three dashes.');
  const { yaml, body, bodyLine } = split;
  const read = yaml === undefined ? undefined : readYaml(yaml, file, Front);
  if (read?.ok === false)
    return {
      ok: false,
      problems: read.problems.map(({ line, message, hint }) => ({
        file,
        line: line === null ? 1 : line + 1,
        message,
        hint,
      })),
    };
  if (body.trim() === '')
    return refuse(bodyLine, 'the persona has no text', 'Write what the model is to read.');
  const trimmed = body.replace(/^(\s*\n)+/, '');
  const skipped = body.slice(0, body.length - trimmed.length).split('\n').length - 1;
  const extendsAt = (yaml ?? '').split('\n').findIndex((line) => /^extends\s*:/.test(line));
  return {
    ok: true,
    persona: {
      source,
      file,
      front: read?.value ?? {},
      extendsLine: extendsAt < 0 ? null : extendsAt + 2,
      body: trimmed.trimEnd(),
      bodyLine: bodyLine + skipped,
      sha256: sha256Hex(text),
    },
  };
}
