// Reports usage and recorded calls.
import { cutPage, readNumberCursor } from '../../../platform/page.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import type { ModelCallView, Usage, UsageRow } from '../../../wire/modeld.ts';
import type { RunId } from '../../../wire/primitives.ts';
import { listCalls, readHashes, readLatest, toCallView } from '../store/calls.ts';
import type { Journal } from '../store/journal.ts';
import { readPart } from '../store/parts.ts';
import { findPrunedCall, findPrunedRun, listContextRuns } from '../store/prune.ts';
import { sumUsage } from '../store/usage.ts';
import type { Upstream } from './ports.ts';

const FORGOTTEN = '[forgotten]';

export type UsageQuery = {
  agent: string | undefined;
  taskId: string | undefined;
  since: string | undefined;
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

  async usage(query: UsageQuery) {
    const { db } = this.#deps;
    await this.#flush();
    const sums = await db.read((sql) =>
      sumUsage(sql, {
        agent: query.agent?.replace(/^agent:/, ''),
        taskId: query.taskId,
        sinceMs: query.since === undefined ? undefined : Date.parse(query.since),
      }),
    );
    const { upstream } = this.#deps;
    const rows = sums.map(
      ({ cost, ...row }): UsageRow => ({
        ...row,
        cost_microusd: cost,
        cost_is_guess: cost > 0 && upstream.getPrice(row.provider, row.model).is_guess,
      }),
    );
    return { rows, total: sumRows(rows) };
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
    usage: {
      input_tokens: sum((row) => row.usage.input_tokens),
      output_tokens: sum((row) => row.usage.output_tokens),
      cache_read_tokens: sum((row) => row.usage.cache_read_tokens),
      cache_write_tokens: sum((row) => row.usage.cache_write_tokens),
      reasoning_tokens: sum((row) => row.usage.reasoning_tokens),
    },
    cost_microusd: sum((row) => row.cost_microusd),
  };
}
