// Handles the routes of retention.
import type { Clock } from '../../../platform/clock.ts';
import type { HandlerContext, Handlers } from '../../../platform/dispatch.ts';
import type { retentionRoutes } from '../../../wire/agentd/retention.ts';
import { RetentionKind } from '../../../wire/agentd/retention.ts';
import { fault } from '../../../wire/errors.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import { time } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';
import type { DataPolicy } from './may-delete.ts';
import type { Retention } from './retention.ts';

type Routes = typeof retentionRoutes;

export function makeRetentionHandlers(deps: {
  store: AgentdStore;
  retention: Retention;
  policy: DataPolicy;
  clock: Clock;
}): Handlers<Routes> {
  const { store, retention, policy, clock } = deps;

  const assertMayRetain = async (principal: string, id: string): Promise<void> => {
    const { root_task_id: rootTaskId, created_ms } = await store.taskRow(id);
    const decision = await policy.mayRetain(principal, {
      kind: 'tasks',
      id: rootTaskId,
      rootTaskId,
      ageMs: clock.nowMs() - Number(created_ms),
      ...(await store.describeTree(rootTaskId)),
    });
    if (decision.answer === 'allow') return;
    await store.recordDenial({
      action: 'data.retain',
      principal,
      rules: decision.rules,
      rootTaskId,
      data: { kind: 'tasks' },
    });
    throw fault('denied', `${principal} may not hold ${rootTaskId}: ${decision.reason}`, {
      details: { rules: decision.rules },
    });
  };

  return {
    startPrune: async (c: HandlerContext<Routes['startPrune']>) => ({
      prune: await retention.start(c.body, c.caller.principal),
    }),
    getPrune: async (c: HandlerContext<Routes['getPrune']>) => retention.view(c.query.started_at),
    async keepTask(c: HandlerContext<Routes['keepTask']>) {
      const { kept: isKept, reason = '' } = c.body;
      const by = c.caller.principal;
      if (isKept) await assertMayRetain(by, c.params.id);
      const row = await store.keepTask(c.params.id, { isKept, reason, by });
      return { task: await store.viewTask(row) };
    },
    async getTombstone(c: HandlerContext<Routes['getTombstone']>) {
      const { id } = c.params;
      const found = await store.findTombstone(id);
      if (found === undefined) throw fault('not_found', `${id} was not pruned`);
      return {
        tombstone: {
          id,
          kind: RetentionKind.parse(found.kind),
          root_task_id: found.root_task_id as TaskId | null,
          pruned_at: time(found.pruned_ms)!,
          cause: found.cause,
        },
      };
    },
  };
}
