// Serves skills to people and, through toold, to runs.
import { findNearest } from '../../../platform/did-you-mean.ts';
import type { HandlerContext } from '../../../platform/dispatch.ts';
import type { agentdRoutes, SkillView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { SkillDirs } from '../adapters/skill-dirs.ts';
import { findHeldRun } from '../live-run.ts';
import type { AgentdStore } from '../store/store.ts';
import { matchSkills, mayUse } from './library.ts';
import type { Skill } from './skill-file.ts';

type Routes = typeof agentdRoutes;

export function makeSkillHandlers({
  dirs,
  store,
}: {
  dirs: SkillDirs;
  store: Pick<AgentdStore, 'runRow' | 'agent'>;
}) {
  const find = (name: string, allowed?: readonly string[]): Skill => {
    const { skills } = dirs.current();
    const skill = skills.get(name);
    if (skill !== undefined && mayUse(allowed, name)) return skill;
    const names = [...skills.keys()].filter((known) => mayUse(allowed, known));
    const near = findNearest(name, names);
    const guess = near === undefined ? '' : `; did you mean ${near}?`;
    throw fault('not_found', `skill ${name} not found${guess}`, {
      hint: names.length === 0 ? 'There are none.' : `There are: ${names.join(', ')}`,
    });
  };
  const read = async (skill: Skill, path: string | undefined) => ({
    text: path === undefined ? skill.body : await dirs.readFile(skill, path),
    files: await dirs.listFiles(skill),
  });
  return {
    async listSkills({ query: { goal } }: HandlerContext<Routes['listSkills']>) {
      const library = dirs.current();
      const found =
        goal === undefined
          ? [...library.skills.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
          : matchSkills(library, goal, undefined);
      return { skills: found.map(toView), problems: [...library.problems] };
    },
    async getSkill({ params, query }: HandlerContext<Routes['getSkill']>) {
      const skill = find(params.name);
      return { skill: toView(skill), ...(await read(skill, query.path)) };
    },
    async toolReadSkill({ body }: HandlerContext<Routes['toolReadSkill']>) {
      const { agent } = await findHeldRun(store, body);
      const { spec } = await store.agent(agent);
      const skill = find(body.name, spec.manifest.spec.skills);
      return { skill: toView(skill), ...(await read(skill, body.path)) };
    },
  };
}

const toView = ({ name, description, source, dir, sha256, expects }: Skill): SkillView => ({
  name,
  description,
  source,
  dir,
  sha256,
  expects: [...expects],
});
