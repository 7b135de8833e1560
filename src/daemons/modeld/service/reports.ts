// Reports usage and recorded calls.
import { toTimestamp } from '../../../platform/clock.ts';
import { cutPage, readNumberCursor } from '../../../platform/page.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import type { ModelCallView, Usage, UsageBy, UsageRow } from '../../../wire/modeld.ts';
import type { RunId } from '../../../wire/primitives.ts';
import { NO_USAGE } from '../rules/budget.ts';
import { listCalls, readHashes, readLatest, toCallView } from '../store/calls.ts';
import type { Journal } from '../store/journal.ts';
import { readPart } from '../store/parts.ts';
import { findPrunedCall, findPrunedRun, listContextRuns } from '../store/prune.ts';
import { findLeftOut, sumUsage, type UsageFilter } from '../store/usage-report.ts';
import type { Upstream } from './ports.ts';
import { addUsages, groupUsage, type UsageCost } from './usage-groups.ts';

const FORGOTTEN = '[forgotten]';

export type UsageQuery = {
  agent: string | undefined;
  taskId: string | undefined;
  since: string | undefined;
  by?: UsageBy | undefined;
};
export type CallsQuery = {
  runId: string | undefined;
  taskId: string | undefined;
  limit: number;
  cursor: string | undefined;
};
export type ReportsDeps = {
  db: Database;
  journal: Journal;
  upstream: Pick<Upstream, 'getPrice'>;
};

export class Reports {
  readonly #deps: ReportsDeps;

  constructor(parts: ReportsDeps) {
    this.#deps = parts;
  }

  /**
   * Makes ended calls durable before they are read. When that fails, the journal logs it and
   * retries, and the reports show such a call as running.
   */
  async #flush(): Promise<void> {
    await this.#deps.journal.flush().catch(() => undefined);
  }

  async usage({ agent, taskId, since, by }: UsageQuery) {
    const { db } = this.#deps;
    await this.#flush();
    const filter: UsageFilter = {
      agent: agent?.replace(/^agent:/, ''),
      taskId,
      sinceMs: since === undefined ? undefined : Date.parse(since),
    };
    return db.read(async (sql) => {
      const sums = await sumUsage(sql, filter);
      const rows = sums.map(
        ({ name, cost, ...row }): UsageRow => ({
          agent: name,
          ...row,
          cost_microusd: cost,
          cost_is_guess: this.#isGuess({ ...row, cost }),
        }),
      );
      const total = { rows, total: sumRows(rows) };
      if (by === undefined) return total;
      const isGuess = this.#isGuess.bind(this);
      const groups = await groupUsage({ sql, filter, isGuess, byAgent: sums }, by);
      const isWhole = by !== 'task' || taskId !== undefined;
      const leftOutMs = isWhole ? undefined : await findLeftOut(sql, filter.sinceMs);
      const after = leftOutMs === undefined ? {} : { groups_after: toTimestamp(leftOutMs) };
      return { ...total, groups, ...after };
    });
  }

  #isGuess({ cost, provider, model }: UsageCost): boolean {
    return cost > 0 && this.#deps.upstream.getPrice(provider, model).is_guess;
  }

  async list(query: CallsQuery) {
    const { db } = this.#deps;
    await this.#flush();
    const { runId, taskId, limit } = query;
    const before = readNumberCursor(query.cursor);
    const found = await db.read(async (sql) => {
      const calls = await listCalls(sql, { runId, taskId, before, limit: limit + 1 });
      const pruned = calls.length > 0 ? undefined : await findPrunedRun(sql, { runId, taskId });
      if (pruned !== undefined) throw pruned;
      return calls;
    });
    const { rows, cursor } = cutPage(found, limit, ({ seq }) => seq);
    return { calls: rows.map(toCallView), cursor };
  }

  async listContexts(after: string | undefined, limit: number): Promise<RunId[]> {
    const rows = await this.#deps.db.read((sql) => listContextRuns(sql, after ?? '', limit));
    return rows.map(({ run_id }) => run_id);
  }

  async get(
    callId: string,
  ): Promise<{ call: ModelCallView; messages: unknown[]; params: unknown; response: unknown }> {
    const { db } = this.#deps;
    await this.#flush();
    return db.read(async (sql) => {
      const row = await readLatest(sql, callId);
      if (row === undefined)
        throw (
          (await findPrunedCall(sql, callId)) ??
          fault('not_found', `model call ${callId} not found`)
        );
      const readBody = async (hash: string): Promise<unknown> => {
        const part = await readPart(sql, hash);
        return part?.body == null ? FORGOTTEN : (JSON.parse(part.body) as unknown);
      };
      const messages: unknown[] = [];
      for (const hash of readHashes(row.context)) messages.push(await readBody(hash));
      const response = row.response === null ? null : await readBody(row.response);
      return { call: toCallView(row), messages, params: await readBody(row.params), response };
    });
  }
}

function sumRows(rows: readonly UsageRow[]): {
  calls: number;
  usage: Usage;
  cost_microusd: number;
} {
  const sum = (read: (row: UsageRow) => number): number =>
    rows.reduce((n, row) => n + read(row), 0);
  return {
    calls: sum((row) => row.calls),
    usage: rows.map((row) => row.usage).reduce(addUsages, NO_USAGE),
    cost_microusd: sum((row) => row.cost_microusd),
  };
}
