// Agents inside a transaction: what their manifests say, and whether they may work.

import { agentNames, agentNotFound } from '../agent-not-found.ts';
import type { DeclaredAgent } from '../manifests.ts';
import type { AgentRow, RunRow } from './rows.ts';
import { requeueRun } from './runs.ts';
import type { AgentdTx } from './tx.ts';

export type LoadedAgent = { spec: DeclaredAgent; file: string | null };
export type AgentSet = { agents: LoadedAgent[] };

/**
 * The manifests now in force. An agent whose manifest is gone takes no new work; what it did stays.
 */
export async function applyAgents(tx: AgentdTx, set: AgentSet): Promise<void> {
  const known = new Map(
    (await tx.sql.all<AgentRow>('SELECT * FROM agents')).map((row) => [row.name, row]),
  );
  for (const agent of set.agents) {
    const row = known.get(agent.spec.name);
    known.delete(agent.spec.name);
    if (
      row === undefined ||
      row.status === 'removed' ||
      row.manifest_hash !== agent.spec.hash ||
      row.manifest_file !== agent.file
    )
      await write(tx, agent, row);
  }
  for (const row of known.values()) {
    if (row.status !== 'removed' && row.manifest_file !== null)
      await setAgentStatus(tx, row.name, 'removed', 'service:agentd');
  }
}

export async function putAgent(tx: AgentdTx, agent: LoadedAgent, by: string): Promise<void> {
  await write(
    tx,
    agent,
    await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', agent.spec.name),
    by,
  );
}

async function write(
  tx: AgentdTx,
  agent: LoadedAgent,
  row: AgentRow | undefined,
  by = 'service:agentd',
): Promise<void> {
  const { name, linuxUser } = agent.spec;
  const status = row === undefined || row.status === 'removed' ? 'active' : row.status;
  await tx.sql.run(
    `INSERT INTO agents
       (name, status, linux_user, manifest_hash, manifest_file, spec, created_ms, updated_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET status = excluded.status, linux_user = excluded.linux_user,
       manifest_hash = excluded.manifest_hash, manifest_file = excluded.manifest_file,
       spec = excluded.spec, updated_ms = excluded.updated_ms`,
    name,
    status,
    linuxUser,
    agent.spec.hash,
    agent.file,
    JSON.stringify(agent.spec),
    row?.created_ms ?? tx.nowMs,
    tx.nowMs,
  );
  if (row !== undefined && row.manifest_hash === agent.spec.hash && row.status !== 'removed')
    return;
  await tx.event({
    id: tx.newId('agent'),
    event: row === undefined ? 'agent.loaded' : 'agent.changed',
    principal: by,
    agent: name,
    data: { manifest_sha256: agent.spec.hash },
  });
}

const EVENT_OF = {
  active: 'agent.resumed',
  paused: 'agent.paused',
  stopped: 'agent.stopped',
  removed: 'agent.removed',
} as const;

/** Pausing lets live runs go on; stopping gives them back, to go on when the agent is resumed. */
export async function setAgentStatus(
  tx: AgentdTx,
  name: string,
  status: keyof typeof EVENT_OF,
  by: string,
): Promise<void> {
  const row = await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', name);
  if (row === undefined || (row.status === 'removed' && status !== 'removed'))
    throw agentNotFound(name, await agentNames(tx.sql));
  if (row.status === status) return;
  await tx.sql.run(
    'UPDATE agents SET status = ?, updated_ms = ? WHERE name = ?',
    status,
    tx.nowMs,
    name,
  );
  await tx.event({ id: tx.newId('agent'), event: EVENT_OF[status], principal: by, agent: name });
  if (status !== 'stopped' && status !== 'removed') return;
  const runs = await tx.sql.all<RunRow>(
    "SELECT * FROM runs WHERE status = 'live' AND agent = ?",
    name,
  );
  for (const run of runs) {
    tx.endedRuns.push({ runId: run.id, fence: run.fence });
    await requeueRun(tx, run, { detail: `the agent was ${status}`, counts: false, crashesMax: 0 });
  }
}
