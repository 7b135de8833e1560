// The rows of agentd's routes for personas, skills, the team and proposals.
import type { IdleWorld } from '../support/callers.ts';
import { rows, withBody } from './row.ts';

const UNKNOWN = '0'.repeat(26);
const NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

const asTool = (more: object) => async (world: IdleWorld) => {
  const run = await world.startRun();
  const forRun = { run_id: run.id, fence: run.fence, call_id: run.callId(0) };
  return { run, body: { ...forRun, ...more } };
};
const proposal = { kind: 'persona', text: 'Mind the gap.' } as const;

export const personaRows = rows({
  listPersonas: { good: async () => ({}) },
  getPersona: { good: async () => ({ params: { kind: 'roles', name: 'coder' } }) },
  getAgentPersona: { good: async () => ({ params: { name: 'worker' } }) },
  listSkills: { good: async () => ({ query: { goal: 'Why does this test fail?' } }) },
  getSkill: {
    good: async () => ({ params: { name: 'map-a-codebase' }, query: { path: 'template.md' } }),
  },
  toolTeam: { good: asTool({}) },
  toolReadSkill: { good: asTool({ name: 'debug-a-failure' }) },
  toolListShared: { good: asTool({}) },
  toolShareArtifact: {
    refused: 'not_found',
    good: asTool({ id: `artifact_${UNKNOWN}` }),
  },
  toolPreviewProposal: {
    good: asTool({ proposal }),
    bad: [
      [
        'a skill without SKILL.md',
        (g) =>
          withBody(g, {
            proposal: { kind: 'skill', name: 'x', files: [{ path: 'a', text: 'b' }] },
          }),
        'bad_request',
      ],
    ],
  },
  toolAcceptProposal: {
    // Its basis is that of another state.
    refused: 'conflict',
    good: asTool({ proposal, basis: NOTHING, approval_id: `approval_${UNKNOWN}` }),
  },
});
