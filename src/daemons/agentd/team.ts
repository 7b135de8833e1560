// Lists the team for a run: who there is, what for, and how busy.
import type { Handlers } from '../../platform/dispatch.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import { findHeldRun } from './live-run.ts';
import type { AgentdStore } from './store/store.ts';

export type TeamHandlers = Pick<Handlers<typeof agentdRoutes>, 'toolTeam'>;

const AGENTS_MAX = 200;

export function makeTeamHandlers({
  store,
}: {
  store: Pick<AgentdStore, 'agents' | 'runRow'>;
}): TeamHandlers {
  return {
    async toolTeam({ body }) {
      await findHeldRun(store, body);
      const agents = await store.agents();
      return {
        agents: agents.slice(0, AGENTS_MAX).map(({ view, spec }) => ({
          name: view.name,
          role: view.role,
          purpose: spec.description,
          status: view.status,
          working: view.tasks.working,
          ready: view.tasks.ready,
          replicas: view.replicas,
        })),
      };
    },
  };
}
