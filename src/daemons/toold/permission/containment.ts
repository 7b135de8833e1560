// Suspends declared tools that violate their declaration. A hostile agent could provoke violations
// to take a tool from all others, so they count by task tree: one tree alone only loses the tool
// for itself. A suspension stays, over restarts, until a person lifts it.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Log } from '../../../platform/log.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { Job } from '../attempts/job.ts';
import type { Violation } from '../tools/tool.ts';
import {
  openSuspensions,
  removeSuspensions,
  type SuspensionStatus,
  suspendForAll,
  suspendInTree,
} from './suspensions.ts';

export type Containment = {
  /** `tree` limits the result to that task tree; undefined returns all suspensions. */
  findSuspensions(tool: string, tree: string | undefined): SuspensionStatus;
  /** Never rejects: the call itself is already recorded. */
  recordViolations(job: Job, violations: readonly Violation[]): Promise<void>;
  /** Suspends the tool for all agents. */
  suspend(tool: string, by: string, reason: string): Promise<void>;
  /** Lifts all suspensions of the tool; throws when there are none. */
  resume(tool: string, by: string): Promise<void>;
};

type CountedViolation = { tree: string; kind: Violation };

/**
 * Each tree counts for its violations, up to `max`, which is half of the limit. So one tree alone
 * never reaches it, but two suspended trees do, and so do many trees with few violations each.
 */
export function shouldSuspendForAll(
  made: readonly CountedViolation[],
  held: ReadonlySet<string>,
  max: number,
) {
  const counts = new Map<string, number>();
  for (const { tree } of made) counts.set(tree, (counts.get(tree) ?? 0) + 1);
  let sum = 0;
  for (const [tree, count] of counts) sum += held.has(tree) ? max : Math.min(count, max);
  return sum >= 2 * max;
}

export async function openContainment(options: {
  db: Database;
  outbox: Pick<Outbox, 'add' | 'wake'>;
  clock: Clock;
  newId: NewId;
  log: Log;
  limits: { violationsMax: number; windowMs: number };
}): Promise<Containment> {
  const { db, outbox, clock, newId, log } = options;
  const { violationsMax, windowMs } = options.limits;
  const suspensions = await openSuspensions(db);

  /** Returns all counted violations of the tool, including those of this call. */
  const addViolations = async (
    sql: Sql,
    job: Job,
    violations: readonly Violation[],
  ): Promise<CountedViolation[]> => {
    const { toolName: tool, callId, run } = job;
    const nowMs = clock.nowMs();
    for (const kind of violations)
      await sql.run(
        'INSERT INTO tool_violations (tool, call_id, kind, at_ms, root_task_id) ' +
          'VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
        tool,
        callId,
        kind,
        nowMs,
        run.rootTaskId,
      );
    // The violations of a suspended tree never expire: they count when other trees follow.
    await sql.run(
      'DELETE FROM tool_violations WHERE at_ms <= ? AND NOT EXISTS (SELECT 1 FROM ' +
        'tool_tree_suspensions AS held WHERE held.tool = tool_violations.tool ' +
        'AND held.root_task_id = tool_violations.root_task_id)',
      nowMs - windowMs,
    );
    return sql.all<CountedViolation>(
      'SELECT root_task_id AS tree, kind FROM tool_violations WHERE tool = ?',
      tool,
    );
  };

  const countViolations = async (job: Job, violations: readonly Violation[]): Promise<void> => {
    const { toolName: tool, callId, run } = job;
    const tree = run.rootTaskId;
    const found = await suspensions.change(tool, async (sql, { suspended, suspended_in = [] }) => {
      const made = await addViolations(sql, job, violations);
      if (suspended !== undefined) return undefined;
      const held = new Set<string>(suspended_in.map(({ task_id }) => task_id));
      const own = made.filter((violation) => violation.tree === tree);
      const isTree = own.length >= violationsMax && !held.has(tree);
      const isAll = shouldSuspendForAll(made, held, violationsMax);
      if (!isTree && !isAll) return undefined;
      const row = { tool, sinceMs: clock.nowMs() };
      if (isTree) await suspendInTree(sql, { ...row, tree, reason: formatReason(own) });
      const counted = isAll ? made : own;
      const [scope, reason] = [isAll ? 'everybody' : 'task_tree', formatReason(counted)];
      if (isAll) await suspendForAll(sql, { ...row, by: 'service:toold', reason });
      await outbox.add(sql, {
        id: `${callId}.suspended`,
        event: 'tool.suspended',
        principal: 'service:toold',
        agent: run.agent,
        task_id: run.taskId,
        root_task_id: tree,
        run_id: run.runId,
        call_id: callId,
        tool,
        status: 'suspended',
        data: { scope, violations: counted.length, reason },
      });
      return { scope, tree, reason };
    });
    if (found === undefined) return;
    outbox.wake();
    log.warn('tool suspended', { tool, ...found });
  };

  return {
    findSuspensions: suspensions.statusOf,
    async recordViolations(job, violations) {
      if (violations.length === 0 || violationsMax === 0) return;
      await countViolations(job, violations).catch((error: unknown) =>
        log.error('counting a violation failed', { tool: job.toolName, error }),
      );
    },
    async suspend(tool, by, reason) {
      const id = newId<string>('rt');
      const data = { scope: 'everybody', reason: reason.slice(0, 1_000) };
      const draft: EventDraft = {
        id,
        event: 'tool.suspended',
        principal: by,
        tool,
        status: 'suspended',
        data,
      };
      await suspensions.change(tool, async (sql, { suspended }) => {
        if (suspended !== undefined) return;
        await suspendForAll(sql, { tool, by, sinceMs: clock.nowMs(), reason });
        await outbox.add(sql, draft);
      });
      outbox.wake();
    },
    async resume(tool, by) {
      const id = newId<string>('rt');
      const draft: EventDraft = { id, event: 'tool.resumed', principal: by, tool };
      const gone = await suspensions.change(tool, async (sql) => {
        await sql.run('DELETE FROM tool_violations WHERE tool = ?', tool);
        const removed = await removeSuspensions(sql, tool);
        if (removed > 0) await outbox.add(sql, draft);
        return removed > 0;
      });
      outbox.wake();
      if (!gone) throw fault('conflict', `${tool} is not suspended`);
    },
  };
}

function formatReason(made: readonly CountedViolation[]): string {
  const kinds = [...new Set(made.map(({ kind }) => kind))]
    .sort()
    .map((kind) => VIOLATION_TEXTS[kind]);
  const trees = new Set(made.map(({ tree }) => tree)).size;
  const where = trees > 1 ? ` in ${trees} task trees` : '';
  return `${made.length} violations${where}: ${kinds.join('; ')}`;
}

const VIOLATION_TEXTS: Readonly<Record<Violation, string>> = {
  output: 'its output does not match its declaration',
  limit: 'it exceeded its limits',
  network: 'it tried to reach hosts that are not allowed',
};
