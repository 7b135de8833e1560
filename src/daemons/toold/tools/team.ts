// team.list and skill.read: who else works here, and how things are done here. agentd knows both.
import * as z from 'zod';
import { SkillFiles, SkillName } from '../../../wire/agentd.ts';
import { endOfPage } from './artifacts.ts';
import { type AgentdClient, forRun, peerOptions, type Tool, tool } from './tool.ts';

const READS = {
  risk: 'low',
  reversibility: 'read-only',
  idempotent: true,
  level: 'L0',
} as const;

export function teamTools(agentd: AgentdClient): Tool[] {
  const list = tool({
    name: 'team.list',
    description:
      'List your colleagues: name, role, purpose and how busy each is. Use it to find the one whom ' +
      'to ask or to give work to.',
    ...READS,
    input: z.strictObject({}),
    output: z.object({
      agents: z.array(
        z.object({
          name: z.string(),
          role: z.string().nullable(),
          purpose: z.string(),
          status: z.string(),
          working: z.int(),
          ready: z.int(),
          replicas: z.int(),
        }),
      ),
    }),
    async perform(_input, context) {
      const { agents } = await agentd.toolTeam({ body: forRun(context) }, peerOptions);
      return { result: { agents } };
    },
  });

  const read = tool({
    name: 'skill.read',
    description:
      'Read a skill: instructions for a kind of task, as they are followed here. The result lists ' +
      'its other files; read one with "path". Long text comes in pages: call again with next_offset.',
    ...READS,
    input: z.strictObject({
      name: SkillName,
      path: z.string().min(1).max(1_000).optional().describe('a file of the skill'),
      offset: z.int().nonnegative().default(0).describe('the character to start at'),
    }),
    output: z.object({
      name: z.string(),
      text: z.string(),
      files: SkillFiles,
      next_offset: z.int().optional(),
    }),
    async perform({ name, path, offset }, context) {
      const body = { ...forRun(context), name, ...(path === undefined ? {} : { path }) };
      const { text, files } = await agentd.toolReadSkill({ body }, peerOptions);
      const end = endOfPage(text, offset);
      const more = end < text.length ? { next_offset: end } : {};
      return { result: { name, text: text.slice(offset, end), files, ...more } };
    },
  });

  return [list, read];
}
