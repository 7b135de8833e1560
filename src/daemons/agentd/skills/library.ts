// The library of skills: those in force by name, and which of them fit a goal. Pure; no model is
// asked. adapters/skill-dirs.ts reads the directories.
import { makeTextRanking, type TextRanking } from '../../../platform/text/bm25.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { Skill } from './skill-file.ts';

export type SkillLibrary = {
  /** By name: of equal names the operator's, else the site's, else the package's. */
  skills: ReadonlyMap<string, Skill>;
  problems: readonly FileProblem[];
  ranking: TextRanking;
};

const MATCHES_MAX = 3;
/** A match is at least this good, compared with the best one. */
const SHARE_MIN = 0.4;
/** This many words of the goal say what the skill is for; one is chance. */
const TELLING_MIN = 2;

export function buildSkillLibrary(
  skills: ReadonlyMap<string, Skill>,
  problems: readonly FileProblem[],
): SkillLibrary {
  const texts = [...skills.values()].map(({ name, description }) => ({
    id: name,
    text: `${name} ${name.replace(/[-_.]/g, ' ')} ${description}`,
  }));
  return { skills, problems, ranking: makeTextRanking(texts) };
}

/** `allowed` is the manifest's list; undefined: all. */
export function matchSkills(
  { skills, ranking }: SkillLibrary,
  goal: string,
  allowed: readonly string[] | undefined,
): Skill[] {
  if (skills.size === 0 || allowed?.length === 0) return [];
  const fitting = ranking
    .rank(goal)
    .filter(({ id, telling }) => telling.length >= TELLING_MIN && mayUse(allowed, id));
  const best = fitting[0]?.score ?? 0;
  return fitting
    .filter(({ score }) => score >= best * SHARE_MIN)
    .slice(0, MATCHES_MAX)
    .map(({ id }) => skills.get(id)!);
}

export const mayUse = (allowed: readonly string[] | undefined, name: string): boolean =>
  allowed === undefined || allowed.includes(name);
