// Opens what agents are told besides their manifests: the directories of personas and of skills, of
// the package, the site and the operator.
import { join } from 'node:path';
import type { DaemonContext } from '../../platform/daemon.ts';
import { makePrivateDir } from '../../platform/state-dir.ts';
import type { BriefedSkill } from '../../wire/agentd.ts';
import { type LayeredRoots, openPersonaDirs, type PersonaDirs } from './adapters/persona-dirs.ts';
import { openSkillDirs, type SkillDirs } from './adapters/skill-dirs.ts';
import type { AgentdConfig } from './config.ts';
import { matchSkills } from './skills/library.ts';

export type Orders = {
  personas: PersonaDirs;
  skills: SkillDirs;
  /** The directories, which no agent gets access to. */
  dirs: readonly string[];
  matchSkills(goal: string, allowed: readonly string[] | undefined): BriefedSkill[];
  close(): void;
};

export async function openOrders(
  { config, stateDir, clock, log }: DaemonContext<AgentdConfig>,
  onPersonasChanged: () => Promise<void>,
): Promise<Orders> {
  for (const folder of ['personas', 'skills']) makePrivateDir(join(stateDir, folder));
  const roots = (folder: string): LayeredRoots => listRoots(config, stateDir, folder);
  const personas = await openPersonaDirs({
    roots: roots('personas'),
    clock,
    log,
    onChange: onPersonasChanged,
  });
  const skills = await openSkillDirs({ roots: roots('skills'), clock, log });
  return {
    personas,
    skills,
    dirs: [...roots('personas'), ...roots('skills')].map(({ dir }) => dir),
    matchSkills: (goal, allowed) =>
      matchSkills(skills.current(), goal, allowed).map(({ name, description }) => ({
        name,
        description,
      })),
    close() {
      personas.close();
      skills.close();
    },
  };
}

/** In the order of the layers. */
function listRoots(
  { package_dir, site_dir }: Pick<AgentdConfig, 'package_dir' | 'site_dir'>,
  stateDir: string,
  folder: string,
): LayeredRoots {
  return [
    ...(package_dir === undefined
      ? []
      : [{ source: 'package' as const, dir: join(package_dir, folder) }]),
    { source: 'site', dir: join(site_dir, folder) },
    { source: 'operator', dir: join(stateDir, folder) },
  ];
}
