// Declared tools that break what was declared of them: counted, and after so many in a while
// suspended for everybody, until a person has looked and lets them go on.
import type { Clock } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import { fault } from '../../wire/errors.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { ToolView } from '../../wire/toold.ts';
import type { Job } from './job.ts';

/** What a declared tool did that its declaration or its sandbox does not allow. */
export type Violation = 'output' | 'limit' | 'network';
export type Suspension = NonNullable<ToolView['suspended']>;

export type Containment = {
  suspensionOf(tool: string): Suspension | undefined;
  /** Never fails: what it is about has happened, and has its own record. */
  note(job: Job, violations: readonly Violation[]): Promise<void>;
  suspend(tool: string, by: string, reason: string): Promise<Suspension>;
  /** A fault when it is not suspended. */
  resume(tool: string, by: string): Promise<void>;
};

type Row = { tool: string; since_ms: number; by_principal: string; reason: string };

export async function openContainment(options: {
  db: Database;
  outbox: Pick<Outbox, 'add' | 'poke'>;
  clock: Clock;
  newId: NewId;
  log: Log;
  limits: { violationsMax: number; windowMs: number };
}): Promise<Containment> {
  const { db, outbox, clock, newId, log } = options;
  const { violationsMax, windowMs } = options.limits;
  const suspended = new Map<string, Suspension>();
  const rows = await db.read((sql) =>
    sql.all<Row>('SELECT tool, since_ms, by_principal, reason FROM tool_suspensions'),
  );
  for (const { tool, since_ms, by_principal: by, reason } of rows)
    suspended.set(tool, { since: toTimestamp(Number(since_ms)), by, reason });

  type Sql = Parameters<Parameters<Database['write']>[0]>[0];
  const hold = async (sql: Sql, row: Row, draft: EventDraft): Promise<void> => {
    const { tool, since_ms, by_principal, reason } = row;
    const added = await sql.run(
      'INSERT INTO tool_suspensions (tool, since_ms, by_principal, reason) VALUES (?, ?, ?, ?) ' +
        'ON CONFLICT DO NOTHING',
      ...[tool, since_ms, by_principal, reason],
    );
    if (added > 0) await outbox.add(sql, draft);
  };
  const remember = ({ tool, since_ms, by_principal: by, reason }: Row): Suspension => {
    const known = suspended.get(tool) ?? { since: toTimestamp(since_ms), by, reason };
    suspended.set(tool, known);
    outbox.poke();
    return known;
  };

  const count = async (job: Job, violations: readonly Violation[]): Promise<void> => {
    const { toolName: tool, callId, run } = job;
    const nowMs = clock.nowMs();
    const row = await db.write(async (sql): Promise<Row | undefined> => {
      for (const kind of violations)
        await sql.run(
          'INSERT INTO tool_violations (tool, call_id, kind, at_ms) VALUES (?, ?, ?, ?) ' +
            'ON CONFLICT DO NOTHING',
          ...[tool, callId, kind, nowMs],
        );
      await sql.run('DELETE FROM tool_violations WHERE at_ms <= ?', nowMs - windowMs);
      const made = await sql.all<{ kind: Violation }>(
        'SELECT kind FROM tool_violations WHERE tool = ?',
        tool,
      );
      if (violationsMax === 0 || made.length < violationsMax) return undefined;
      const kinds = [...new Set(made.map(({ kind }) => kind))].sort().map((kind) => WORDS[kind]);
      const reason = `${made.length} violations: ${kinds.join('; ')}`;
      const found: Row = { tool, since_ms: nowMs, by_principal: 'service:toold', reason };
      await hold(sql, found, {
        ...{ id: `${callId}.suspended`, event: 'tool.suspended', principal: 'service:toold' },
        ...{ agent: run.agent, task_id: run.taskId, root_task_id: run.rootTaskId },
        ...{ run_id: run.runId, call_id: callId, tool, status: 'suspended' },
        data: { violations: made.length, reason },
      });
      return found;
    });
    if (row === undefined) return;
    log.warn('a tool is suspended', { tool, reason: row.reason });
    remember(row);
  };

  return {
    suspensionOf: (tool) => suspended.get(tool),
    async note(job, violations) {
      if (violations.length === 0) return;
      await count(job, violations).catch((error: unknown) =>
        log.error('a violation is not counted', { tool: job.toolName, error }),
      );
    },
    async suspend(tool, by, reason) {
      const row: Row = { tool, since_ms: clock.nowMs(), by_principal: by, reason };
      const id = newId<string>('rt');
      const data = { reason: reason.slice(0, 1_000) };
      const draft: EventDraft = {
        ...{ id, event: 'tool.suspended', principal: by, tool, status: 'suspended', data },
      };
      await db.write((sql) => hold(sql, row, draft));
      return remember(row);
    },
    async resume(tool, by) {
      const id = newId<string>('rt');
      const draft: EventDraft = { id, event: 'tool.resumed', principal: by, tool };
      const gone = await db.write(async (sql) => {
        await sql.run('DELETE FROM tool_violations WHERE tool = ?', tool);
        const removed = await sql.run('DELETE FROM tool_suspensions WHERE tool = ?', tool);
        if (removed > 0) await outbox.add(sql, draft);
        return removed > 0;
      });
      suspended.delete(tool);
      outbox.poke();
      if (!gone) throw fault('conflict', `${tool} is not suspended`);
    },
  };
}

const WORDS: Readonly<Record<Violation, string>> = {
  output: 'it printed something else than it declares',
  limit: 'it ran into its limits',
  network: 'it tried to reach hosts it may not',
};
