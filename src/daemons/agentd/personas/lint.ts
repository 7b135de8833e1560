// Warns about personas that miss what a good one has: a role and a purpose, rules to decide by, the
// form of the answer, tools that exist, and a length that a model reads. It is a lint: it does not
// prove that a persona works.
import { expandCapability, isBasicTool, isKnownWord } from '../../../policy/capabilities.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import { kindOf, listEffective, type PersonaLibrary } from './library.ts';
import type { PersonaFile } from './persona-file.ts';

const CHARS_MIN = 400;
const CHARS_MAX = 8_000;
const LINE_CHARS_MAX = 2_000;

const DECIDE = /^#+ .*\bdecid/im;
const TOOLS = /^#+ .*\btools?\b/im;
const ANSWER = /^#+ .*\b(answer|output|report)\b/im;
/** A tool's name, written as code. */
const TOOL = /`([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)`/g;

export function lintPersonas(library: PersonaLibrary): FileProblem[] {
  return [...library.files].flatMap(([ref, files]) => {
    const effective = listEffective(files);
    return [
      ...effective.flatMap((file) => lintTools(file, effective)),
      ...(kindOf(ref) === 'roles' ? lintRole(effective) : []),
    ];
  });
}

/** One finding per file: an overlay adds to what the layers below it have. */
function lintRole(files: readonly PersonaFile[]): FileProblem[] {
  const last = files.at(-1)!;
  const text = files.map(({ body }) => body).join('\n\n');
  const has = (key: 'role' | 'purpose') => files.some(({ front }) => front[key] !== undefined);
  const findings: [boolean, string, string][] = [
    [has('role'), 'has no role', 'Add a line role: to its front matter.'],
    [has('purpose'), 'has no purpose', 'Add a line purpose: to its front matter.'],
    [DECIDE.test(text), 'has no rules to decide by', 'Add a heading such as ## How to decide.'],
    [TOOLS.test(text), 'does not say which tools to reach for', 'Add a heading ## Tools.'],
    [ANSWER.test(text), 'does not state the form of the answer', 'Add a heading ## Answer.'],
    [text.length >= CHARS_MIN, `has ${text.length} characters`, `Write at least ${CHARS_MIN}.`],
    [text.length <= CHARS_MAX, `has ${text.length} characters`, 'Move details to a skill.'],
    [
      text.split('\n').every((line) => line.length <= LINE_CHARS_MAX),
      `has a line of more than ${LINE_CHARS_MAX} characters`,
      'Break it into sentences.',
    ],
  ];
  return findings
    .filter(([fits]) => !fits)
    .map(([, message, hint]) => ({
      file: last.file,
      line: 1,
      message: `the persona ${message}`,
      hint,
    }));
}

function lintTools(file: PersonaFile, files: readonly PersonaFile[]): FileProblem[] {
  const words = files.flatMap(({ front }) => front.tools ?? []);
  const tools = new Set(words.flatMap((word) => expandCapability(word) ?? [word]));
  const unknown = (file.front.tools ?? [])
    .filter((word) => !isKnownWord(word))
    .map((word) => ({
      file: file.file,
      line: 1,
      message: `the persona expects ${word}, which is neither a capability nor a built-in tool`,
      hint: 'See agentctl tool list; a tool of your own works if its manifest allows it.',
    }));
  const mentioned = [...file.body.matchAll(TOOL)].flatMap(({ 1: word, index }) => {
    const isTool = isKnownWord(word!) && !isBasicTool(word!);
    if (!isTool || tools.has(word!) || words.includes(word!) || words.length === 0) return [];
    return [
      {
        file: file.file,
        line: file.bodyLine + file.body.slice(0, index).split('\n').length - 1,
        message: `the persona mentions ${word}, which its tools do not include`,
        hint: 'Add the capability to tools in its front matter, or do not mention it.',
      },
    ];
  });
  return [...unknown, ...mentioned];
}

/** Warns of what a persona expects, and the manifest neither allows nor denies in words. */
export function lintAgentTools(
  agent: { name: string; tools: readonly string[]; denied: readonly string[]; file: string },
  files: readonly PersonaFile[],
): FileProblem[] {
  const denied = new Set(agent.denied.flatMap((word) => [word, ...(expandCapability(word) ?? [])]));
  const expected = new Set(files.flatMap(({ front }) => front.tools ?? []));
  const missing = [...expected].filter((word) => {
    const tools = (expandCapability(word) ?? [word]).filter((tool) => !denied.has(tool));
    return !denied.has(word) && tools.some((tool) => !agent.tools.includes(tool));
  });
  if (missing.length === 0) return [];
  return [
    {
      file: agent.file,
      line: null,
      message: `agent ${agent.name} may not use what its persona expects: ${missing.join(', ')}`,
      hint: 'Add it to tools.allow, or to tools.deny to say that this is meant.',
    },
  ];
}
