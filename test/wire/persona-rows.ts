// The rows of agentd's routes for personas, skills and the team.
import type { IdleWorld } from '../support/callers.ts';
import { rows } from './row.ts';

const forRun = async (world: IdleWorld) => {
  const run = await world.startRun();
  return { run_id: run.id, fence: run.fence, call_id: run.callId(0) };
};

export const personaRows = rows({
  listPersonas: { good: async () => ({}) },
  getPersona: { good: async () => ({ params: { kind: 'roles', name: 'coder' } }) },
  getAgentPersona: { good: async () => ({ params: { name: 'worker' } }) },
  listSkills: { good: async () => ({ query: { goal: 'Why does this test fail?' } }) },
  getSkill: {
    good: async () => ({ params: { name: 'map-a-codebase' }, query: { path: 'template.md' } }),
  },
  toolTeam: { good: async (world) => ({ body: await forRun(world) }) },
  toolReadSkill: {
    good: async (world) => ({ body: { ...(await forRun(world)), name: 'debug-a-failure' } }),
  },
});
