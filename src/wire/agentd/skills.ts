// Views of skills: folders with instructions that agents load when a task needs them.
import * as z from 'zod';
import { FileProblem, Sha256 } from '../primitives.ts';
import { route, routes } from '../route.ts';

export const SkillSource = z.enum(['package', 'site', 'operator', 'manifest']);
export type SkillSource = z.infer<typeof SkillSource>;

export const SkillName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be the name of a skill');

/** Tells a run about a skill before it reads it. */
export const BriefedSkill = z.object({ name: SkillName, description: z.string() });
export type BriefedSkill = z.infer<typeof BriefedSkill>;

export const SkillView = BriefedSkill.extend({
  source: SkillSource,
  dir: z.string(),
  sha256: Sha256,
  /** Its front matter's allowed-tools, which grant nothing. */
  expects: z.array(z.string()),
});
export type SkillView = z.infer<typeof SkillView>;

export const SkillFiles = z.array(z.object({ path: z.string(), size_bytes: z.int() }));

export const skillRoutes = routes({
  listSkills: route({
    method: 'GET',
    path: '/v1/skills',
    callers: ['operator'],
    /** With a goal: those that a task with this goal would be told about, best first. */
    query: z.strictObject({ goal: z.string().min(1).max(20_000).optional() }),
    output: z.object({ skills: z.array(SkillView), problems: z.array(FileProblem) }),
  }),
  getSkill: route({
    method: 'GET',
    path: '/v1/skills/{name}',
    callers: ['operator'],
    params: z.strictObject({ name: SkillName }),
    query: z.strictObject({ path: z.string().min(1).max(1_000).optional() }),
    output: z.object({ skill: SkillView, text: z.string(), files: SkillFiles }),
  }),
});
