// Decides what queued runs wait for: their agent, all of whose replicas are busy, or the machine,
// which runs as many as the configuration allows.
import type { StatusView } from '../../wire/agentd.ts';

/** Runs of one agent. `queued` are those that could start now. */
export type AgentLoad = { agent: string; replicas: number; queued: number; live: number };

export function explainQueue(
  loads: readonly AgentLoad[],
  runsLiveMax: number,
): StatusView['queue'] {
  const busy: StatusView['queue']['for_agents'] = [];
  let startable = 0;
  let live = 0;
  for (const load of loads) {
    const starting = Math.min(load.queued, Math.max(0, load.replicas - load.live));
    const runs = load.queued - starting;
    if (runs > 0) busy.push({ agent: load.agent, runs, replicas: load.replicas });
    startable += starting;
    live += load.live;
  }
  const free = Math.max(0, runsLiveMax - live);
  return {
    for_agents: busy.sort((a, b) => b.runs - a.runs),
    for_machine: Math.max(0, startable - free),
    runs_live_max: runsLiveMax,
  };
}
