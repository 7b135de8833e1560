// Writes agents within a transaction: their manifests and status. Also builds their not-found
// fault.
import { findNearest } from '../../../platform/did-you-mean.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { type DeclaredAgent, hashPersona } from '../manifests/read-manifest.ts';
import { type AgentRow, RUN_COLUMNS, type RunRow } from './rows.ts';
import { requeueRun } from './runs.ts';
import type { AgentdTx } from './tx.ts';

export type LoadedAgent = { spec: DeclaredAgent; file: string | null };
export type AgentSet = { agents: LoadedAgent[] };

/** An agent whose manifest was removed accepts no new work; its history stays. */
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
      // Another version of this program reads the same manifest in another way.
      row.spec !== JSON.stringify(agent.spec) ||
      row.manifest_file !== agent.file
    )
      await writeAgent(tx, agent, row);
  }
  for (const row of known.values()) {
    if (row.status !== 'removed' && row.manifest_file !== null)
      await setAgentStatus(tx, row.name, 'removed', 'service:agentd');
  }
}

export async function putAgent(tx: AgentdTx, agent: LoadedAgent, by: string): Promise<void> {
  await writeAgent(
    tx,
    agent,
    await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', agent.spec.name),
    by,
  );
}

async function writeAgent(
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
  if (
    row !== undefined &&
    row.manifest_hash === agent.spec.hash &&
    row.status !== 'removed' &&
    (JSON.parse(row.spec) as DeclaredAgent).persona === agent.spec.persona
  )
    return;
  await tx.event({
    id: tx.newId('agent'),
    event: row === undefined ? 'agent.loaded' : 'agent.changed',
    principal: by,
    agent: name,
    data: {
      manifest_sha256: agent.spec.hash,
      persona_sha256: hashPersona(agent.spec),
    },
  });
}

const EVENT_BY_STATUS = {
  active: 'agent.resumed',
  paused: 'agent.paused',
  stopped: 'agent.stopped',
  removed: 'agent.removed',
} as const;

/** Pausing lets live runs continue; stopping requeues them until the agent is resumed. */
export async function setAgentStatus(
  tx: AgentdTx,
  name: string,
  status: keyof typeof EVENT_BY_STATUS,
  by: string,
): Promise<void> {
  const row = await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', name);
  if (row === undefined || (row.status === 'removed' && status !== 'removed'))
    throw agentNotFound(name, await listAgentNames(tx.sql));
  if (row.status === status) return;
  await tx.sql.run(
    'UPDATE agents SET status = ?, updated_ms = ? WHERE name = ?',
    status,
    tx.nowMs,
    name,
  );
  await tx.event({
    id: tx.newId('agent'),
    event: EVENT_BY_STATUS[status],
    principal: by,
    agent: name,
  });
  if (status !== 'stopped' && status !== 'removed') return;
  const runs = await tx.sql.all<RunRow>(
    `SELECT ${RUN_COLUMNS} FROM runs WHERE status = 'live' AND agent = ?`,
    name,
  );
  for (const run of runs) {
    tx.endedRuns.push({ runId: run.id, fence: run.fence });
    await requeueRun(tx, run, { detail: `the agent was ${status}`, counts: false, crashesMax: 0 });
  }
}

export function agentNotFound(name: string, known: readonly string[]): Fault {
  const near = findNearest(name, known);
  const guess = near === undefined ? '' : `; did you mean ${near}?`;
  return fault('not_found', `agent ${name} not found${guess}`, { hint: 'See agentctl list.' });
}

export async function listAgentNames(sql: Sql): Promise<string[]> {
  const rows = await sql.all<{ name: string }>("SELECT name FROM agents WHERE status <> 'removed'");
  return rows.map(({ name }) => name);
}
