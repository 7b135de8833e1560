// Handles the routes about the whole site: its status, and the kill switch.
import type { HandlerContext } from '../../platform/dispatch.ts';
import type { agentdRoutes, StatusView } from '../../wire/agentd.ts';
import type { AgentdConfig } from './config.ts';
import type { Halt } from './halt.ts';
import type { Agents } from './manifests/agents.ts';
import { explainQueue } from './queue-rules.ts';
import type { AgentdStore } from './store/store.ts';

type Routes = typeof agentdRoutes;

export function makeSiteHandlers(deps: {
  store: AgentdStore;
  halt: Halt;
  agents: Agents;
  about: { version: string; mode: 'embedded' | 'split'; stateDir: string; startedAt: string };
  config: AgentdConfig;
}) {
  const { store, halt, agents, about, config } = deps;
  return {
    async status(): Promise<StatusView> {
      const [counts, runs, list, halted, problems] = await Promise.all([
        store.counts(),
        store.countRunsByAgent(),
        store.agents(),
        store.halt(),
        agents.listProblems(),
      ]);
      const countByStatus = (status: string) =>
        list.filter(({ row }) => row.status === status).length;
      const loads = list.map(({ row, spec: { replicas } }) => {
        const { queued = 0, live = 0 } = runs.get(row.name) ?? {};
        // Runs of a paused agent wait for an operator.
        return { agent: row.name, replicas, live, queued: row.status === 'active' ? queued : 0 };
      });
      return {
        version: about.version,
        mode: about.mode,
        state_dir: about.stateDir,
        started_at: about.startedAt,
        halted: halted !== undefined,
        halt_reason: halted?.reason ?? null,
        agents: {
          active: countByStatus('active'),
          paused: countByStatus('paused'),
          stopped: countByStatus('stopped'),
        },
        tasks: counts.tasks,
        runs: {
          queued: counts.runs.queued ?? 0,
          live: counts.runs.live ?? 0,
          parked: counts.runs.parked ?? 0,
        },
        queue: explainQueue(loads, config.runs_live_max),
        waits_open: counts.waitsOpen,
        problems,
      };
    },
    halt: async (c: HandlerContext<Routes['halt']>) => ({
      halted: true,
      stopped_runs: await halt.set(
        c.body.reason ?? `halted by ${c.caller.principal}`,
        c.caller.principal,
      ),
    }),
    async unhalt(c: HandlerContext<Routes['unhalt']>) {
      await halt.lift(c.caller.principal);
      return { halted: false };
    },
  };
}
