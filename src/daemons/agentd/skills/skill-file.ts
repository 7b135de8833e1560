// Parses SKILL.md as others write it: front matter with a name and a description, other keys that
// are of no concern here, and a body. What strict YAML refuses is read line by line.
import * as z from 'zod';
import { splitFrontMatter } from '../../../platform/front-matter.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { readYaml } from '../../../platform/yaml-file.ts';
import type { SkillSource } from '../../../wire/agentd/skills.ts';
import type { FileProblem } from '../../../wire/primitives.ts';

export const SKILL_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const SKILL_FILE_BYTES_MAX = 262_144;
const DESCRIPTION_CHARS_MAX = 2_000;

const Words = z.union([z.string(), z.array(z.string())]);
const Front = z.looseObject({
  name: z.string().optional(),
  description: z.string().optional(),
  'allowed-tools': Words.optional(),
});

export type Skill = {
  /** That of its folder. */
  name: string;
  source: SkillSource;
  dir: string;
  description: string;
  /** Tools that its author expects to be allowed; grants nothing. */
  expects: readonly string[];
  body: string;
  /** The hash of SKILL.md, as `sha256sum` prints it. */
  sha256: string;
};
export type SkillResult =
  | { ok: true; skill: Skill; warnings: FileProblem[] }
  | { ok: false; problems: FileProblem[] };

export type SkillPlace = { name: string; source: SkillSource; dir: string; file: string };

export function readSkill(text: string, { name, source, dir, file }: SkillPlace): SkillResult {
  const refuse = (line: number, message: string, hint: string): SkillResult => ({
    ok: false,
    problems: [{ file, line, message, hint }],
  });
  const split = splitFrontMatter(text);
  if (split === undefined)
    return refuse(1, 'the front matter is not closed', 'Close it with a line of three dashes.');
  const { yaml = '', body, bodyLine } = split;
  if (body.trim() === '')
    return refuse(bodyLine, 'the skill has no text', 'Write what the model is to read.');
  const { front, warnings } = readFront(yaml, file);
  const description = front.description?.trim() ?? '';
  const shown = description === '' ? firstParagraph(body) : description;
  if (shown === '')
    return refuse(1, 'the skill has no description', 'Add a line description: to it.');
  const expects = front['allowed-tools'] ?? [];
  return {
    ok: true,
    skill: {
      name,
      source,
      dir,
      description: shown.replace(/\s+/g, ' ').slice(0, DESCRIPTION_CHARS_MAX),
      expects: (typeof expects === 'string' ? expects.split(',') : expects)
        .map((word) => word.trim())
        .filter((word) => word !== ''),
      body: body.trim(),
      sha256: sha256Hex(text),
    },
    warnings,
  };
}

type SkillFront = {
  description?: string | undefined;
  'allowed-tools'?: string | string[] | undefined;
};

function readFront(yaml: string, file: string): { front: SkillFront; warnings: FileProblem[] } {
  if (yaml.trim() === '') return { front: {}, warnings: [] };
  const read = readYaml(yaml, file, Front);
  if (read.ok) return { front: read.value, warnings: [] };
  const { line, message } = read.problems[0]!;
  const hint = 'It was read line by line. Put quotes around values that have a colon.';
  return {
    front: readLines(yaml),
    warnings: [{ file, line: line === null ? 1 : line + 1, message, hint }],
  };
}

/** Such as `description: Use when: …`, which is no YAML and common. */
function readLines(yaml: string): SkillFront {
  const front: Record<string, string> = {};
  let key: string | undefined;
  for (const line of yaml.split('\n')) {
    const found = /^([A-Za-z][\w-]*):\s*(.*)$/.exec(line);
    if (found !== null) {
      key = found[1]!;
      front[key] = found[2]!.replace(/^[>|][+-]?$/, '');
    } else if (key !== undefined && /^\s+\S/.test(line)) {
      front[key] = `${front[key]} ${line.trim()}`.trim();
    }
  }
  return front;
}

/** For a file without a description. */
const firstParagraph = (body: string): string =>
  body
    .split(/\n\s*\n/)
    .map((part) => part.trim())
    .find((part) => part !== '' && !part.startsWith('#')) ?? '';
