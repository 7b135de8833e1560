// Composes an agent's persona from its layers: base, groups, roles, scopes, agent, inline; of each
// first the package's file, then the site's, then the operator's. Pure, and done when a manifest or
// a persona changes, never when a task starts.
import { sha256Hex } from '../../../platform/json.ts';
import type { PersonaLayer } from '../../../wire/agentd/personas.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import { kindOf, listEffective, type PersonaLibrary, readHead, toLayerRef } from './library.ts';
import type { PersonaFile } from './persona-file.ts';
import { fillIn, type PersonaValues } from './variables.ts';

export type PersonaInput = {
  agent: string;
  description: string;
  labels: Readonly<Record<string, string>>;
  /** Undefined: it names none, so that only its own layers count. */
  refs: readonly string[] | undefined;
  inline: string | undefined;
  manifestFile: string;
  manifestHash: string;
};

export type ComposedPersona = {
  text: string;
  sha256: string;
  layers: PersonaLayer[];
  /** These are of its first role. */
  role: string | null;
  purpose: string | null;
  /** Absent in what an earlier release stored. */
  topics?: string[];
  persona: string | null;
};
export type ComposeResult =
  | { ok: true; persona: ComposedPersona }
  | { ok: false; problems: FileProblem[] };

const SEPARATOR = '\n\n---\n\n';
export const COMPOSED_CHARS_MAX = 256_000;
const ORDER = ['groups', 'roles', 'scopes'];

/** The references in the order in which they are composed. */
function listRefs({ refs, agent }: PersonaInput, library: PersonaLibrary): string[] {
  const own = `agents/${agent}`;
  const mine = library.files.has(own) || library.broken.has(own) ? [own] : [];
  if (refs === undefined) return mine;
  const named = refs.map(toLayerRef);
  return ['base', ...ORDER.flatMap((kind) => named.filter((ref) => kindOf(ref) === kind)), ...mine];
}

export function composePersona(library: PersonaLibrary, input: PersonaInput): ComposeResult {
  const found = collectFiles(library, listRefs(input, library), input.manifestFile);
  if (found.problems.length > 0) return { ok: false, problems: found.problems };
  const firstRole = input.refs?.map(toLayerRef).find((ref) => kindOf(ref) === 'roles');
  const head = readHead(firstRole === undefined ? [] : (library.files.get(firstRole) ?? []));
  const values: PersonaValues = {
    agent: input.agent,
    description: input.description,
    role: head.role,
    purpose: head.purpose,
    labels: input.labels,
  };
  const filled = found.files.map(({ ref, file }) => ({ ref, file, ...fillIn(file, values) }));
  const unknown = filled.flatMap(({ problems }) => problems);
  if (unknown.length > 0) return { ok: false, problems: unknown };
  const inline =
    input.inline ??
    (filled.length > 0 ? undefined : `You are ${input.agent}. ${input.description}`.trim());
  const text = [
    ...filled.map((layer) => layer.text),
    ...(inline === undefined ? [] : [inline]),
  ].join(SEPARATOR);
  if (text.length > COMPOSED_CHARS_MAX)
    return { ok: false, problems: [tooLongProblem(input, text.length)] };
  return {
    ok: true,
    persona: {
      text,
      sha256: sha256Hex(text),
      layers: [
        ...filled.map(({ ref, file }) => ({
          layer: ref,
          source: file.source,
          file: file.file,
          sha256: file.sha256,
        })),
        ...(inline === undefined ? [] : [inlineLayer(input)]),
      ],
      ...head,
      persona: firstRole?.replace('roles/', '') ?? null,
    },
  };
}

const inlineLayer = ({ manifestFile, manifestHash }: PersonaInput): PersonaLayer => ({
  layer: 'inline',
  source: 'manifest',
  file: manifestFile,
  sha256: manifestHash,
});

const tooLongProblem = ({ agent, manifestFile }: PersonaInput, chars: number): FileProblem => ({
  file: manifestFile,
  line: null,
  message: `the persona of ${agent} has ${chars} characters; it may have at most ${COMPOSED_CHARS_MAX}`,
  hint: 'Name fewer layers, or move long texts to skills.',
});

type FoundFile = { ref: string; file: PersonaFile };

/** Each layer once, after those that it extends. */
function collectFiles(
  library: PersonaLibrary,
  refs: readonly string[],
  manifestFile: string,
): { files: FoundFile[]; problems: FileProblem[] } {
  const files: FoundFile[] = [];
  const problems: FileProblem[] = [];
  const visited = new Set<string>();
  const visit = (
    ref: string,
    path: readonly string[],
    from: { file: string; line: number | null },
  ) => {
    if (path.includes(ref)) {
      const circle = [...path.slice(path.indexOf(ref)), ref].join(' -> ');
      const hint = 'Remove one of these references from extends.';
      problems.push({ ...from, message: `personas extend each other: ${circle}`, hint });
      return;
    }
    if (visited.has(ref)) return;
    visited.add(ref);
    const broken = library.broken.get(ref) ?? [];
    const own = library.files.get(ref) ?? [];
    problems.push(...broken);
    if (broken.length === 0 && own.length === 0)
      problems.push({ ...from, ...describeMissing(ref) });
    for (const file of listEffective(own)) {
      for (const other of file.front.extends ?? [])
        visit(toLayerRef(other), [...path, ref], { file: file.file, line: file.extendsLine });
      files.push({ ref, file });
    }
  };
  for (const ref of refs) visit(ref, [], { file: manifestFile, line: null });
  return { files, problems };
}

export const describeMissing = (ref: string): { message: string; hint: string } => ({
  message: `there is no persona ${ref}`,
  hint: `See agentctl persona list, or write STATE/personas/${ref}.md.`,
});
