// Finds the agent for a task that names none, from what is declared and recorded of each.
import { findNearest } from '../../../platform/did-you-mean.ts';
import { CAPABILITY_NAMES } from '../../../policy/capabilities.ts';
import { type AgentView, BOX_AGENT } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { DeclaredAgent } from '../manifests/read-manifest.ts';
import type { AgentRecord } from '../store/board.ts';
import type { AgentMatch } from '../store/matches.ts';
import type { AgentdStore } from '../store/store.ts';
import { type AgentProfile, chooseAgent, type Match } from './match-rules.ts';

export type MatchRequest = { goal: string; needs: readonly string[]; agent?: string | undefined };
export type FindMatch = (request: MatchRequest) => Promise<AgentMatch>;

/** Throws if no agent may do it, or if the named agent may not. */
export function makeFindMatch(store: Pick<AgentdStore, 'agents' | 'agentRecord'>): FindMatch {
  return async ({ goal, needs, agent }) => {
    const active = (await store.agents()).filter(
      ({ row }) => row.status === 'active' && row.name !== BOX_AGENT,
    );
    assertKnown(
      needs,
      active.flatMap(({ spec }) => spec.tools),
    );
    const profiles = await Promise.all(
      active.map(async (agent) => buildProfile(agent, await store.agentRecord(agent.spec.name))),
    );
    const match = chooseAgent({ goal, needs, profiles });
    if (agent !== undefined) assertAble(agent, match);
    else if (match.candidates.length === 0) throw noneAble(match);
    const named = { agent: agent as AgentMatch['agent'], reason: 'named' as const };
    return {
      ...match,
      needs: [...needs],
      tried: [],
      ...(agent === undefined ? { agent: match.agent as AgentMatch['agent'] } : named),
    };
  };
}

function assertKnown(needs: readonly string[], tools: readonly string[]): void {
  const known = [...new Set([...CAPABILITY_NAMES, ...tools])];
  const unknown = needs.find((word) => !known.includes(word));
  if (unknown === undefined) return;
  const near = findNearest(unknown, known);
  throw fault('bad_request', `needs: ${unknown} is not a known capability or tool`, {
    hint: near === undefined ? 'See agentctl tool list.' : `Did you mean ${near}?`,
  });
}

function assertAble(agent: string, { excluded }: Match): void {
  const found = excluded.find((one) => one.agent === agent);
  if (found === undefined) return;
  throw fault('conflict', `agent ${agent} lacks ${found.lacks.join(', ')}`, {
    hint: 'Name another agent, or omit the agent: the best match among those that may is chosen.',
  });
}

function noneAble({ excluded }: Match) {
  if (excluded.length === 0)
    return fault('conflict', 'there is no active agent', { hint: 'See agentctl list.' });
  const lacking = excluded.map(({ agent, lacks }) => `${agent} lacks ${lacks.join(', ')}`);
  return fault('conflict', `no agent may do it: ${lacking.slice(0, 8).join('; ')}`, {
    hint: 'Add the capability to a manifest (tools.allow), or create an agent that has it.',
  });
}

type ActiveAgent = { spec: DeclaredAgent; view: AgentView };

function buildProfile({ spec, view }: ActiveAgent, record: AgentRecord): AgentProfile {
  const { counts } = record;
  const costs = record.costsMicrousd.toSorted((a, b) => a - b);
  return {
    agent: spec.name,
    role: view.role ?? spec.name.replace(/[-_]?\d+$/, '').replace(/[-_]/g, ' '),
    purpose: [spec.description, view.purpose ?? ''].join('\n').trim(),
    topics: spec.composed?.topics ?? [],
    skills: (spec.manifest.spec.skills ?? []).map((name) => name.replace(/-/g, ' ')),
    instructions: spec.persona,
    tools: spec.tools,
    acceptedGoals: record.goals,
    load: ((counts.ready ?? 0) + (counts.working ?? 0)) / spec.replicas,
    accepted: counts.completed ?? 0,
    failed: counts.failed ?? 0,
    medianCostMicrousd: costs.length === 0 ? null : costs[Math.floor(costs.length / 2)]!,
  };
}
