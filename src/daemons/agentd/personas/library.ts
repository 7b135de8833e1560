// The library of personas: every file that was read, by reference. Pure; adapters/persona-dirs.ts
// reads the directories.
import type { PersonaLayerKind } from '../../../wire/agentd/personas.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { PersonaFile, PersonaResult } from './persona-file.ts';

export type PersonaLibrary = {
  /** By reference; of one reference in the order package, site, operator. */
  files: ReadonlyMap<string, readonly PersonaFile[]>;
  /** The problems of files that could not be read, by reference. */
  broken: ReadonlyMap<string, readonly FileProblem[]>;
  /** The problems of files whose name is no reference. */
  stray: readonly FileProblem[];
  /** Differs whenever anything else does. */
  version: string;
};

export const NO_PERSONAS: PersonaLibrary = {
  files: new Map(),
  broken: new Map(),
  stray: [],
  version: '',
};

export const PERSONA_FOLDERS = ['groups', 'roles', 'scopes', 'agents'] as const;

/** coder is a role; the others name their folder. */
export const toLayerRef = (ref: string): string => (ref.includes('/') ? ref : `roles/${ref}`);

export const kindOf = (ref: string): PersonaLayerKind =>
  (ref === 'base' ? 'base' : ref.split('/')[0]) as PersonaLayerKind;

export const nameOf = (ref: string): string => ref.split('/').at(-1)!;

/** Without what a later file takes the place of. */
export function listEffective(files: readonly PersonaFile[]): readonly PersonaFile[] {
  return files.slice(
    Math.max(
      0,
      files.findLastIndex(({ front }) => front.replace === true),
    ),
  );
}

export function buildLibrary(
  readings: readonly { ref: string; result: PersonaResult }[],
  { stray, version }: Pick<PersonaLibrary, 'stray' | 'version'>,
): PersonaLibrary {
  const files = new Map<string, PersonaFile[]>();
  const broken = new Map<string, FileProblem[]>();
  const add = <T>(map: Map<string, T[]>, ref: string, more: readonly T[]): void =>
    void map.set(ref, [...(map.get(ref) ?? []), ...more]);
  for (const { ref, result } of readings) {
    if (result.ok) add(files, ref, [result.persona]);
    else add(broken, ref, result.problems);
  }
  return { files, broken, stray, version };
}

/** Role and purpose, as the last file that states each does, and the topics of all. */
export function readHead(files: readonly PersonaFile[]): {
  role: string | null;
  purpose: string | null;
  topics: string[];
} {
  const last = (key: 'role' | 'purpose'): string | null =>
    files.findLast(({ front }) => front[key] !== undefined)?.front[key] ?? null;
  const topics = files.flatMap(({ front }) => front.topics ?? []);
  return { role: last('role'), purpose: last('purpose'), topics };
}
