// Handles the routes of the board.
import type { Clock } from '../../platform/clock.ts';
import type { Handlers } from '../../platform/dispatch.ts';
import type { boardRoutes } from '../../wire/agentd/board.ts';
import type { AgentdStore } from './store/store.ts';

const HOUR_MS = 3_600_000;

export function makeBoardHandlers({
  store,
  clock,
}: {
  store: AgentdStore;
  clock: Clock;
}): Handlers<typeof boardRoutes> {
  return {
    getBoard: async ({ query: { limit, hours } }) => ({
      board: await store.board({ limit, sinceMs: clock.nowMs() - hours * HOUR_MS }),
    }),
    getTaskMatch: async ({ params }) => ({
      task: await store.task(params.id),
      match: (await store.match(params.id)) ?? null,
    }),
    updateTask: async ({ params, body, caller }) => ({
      task: await store.viewTask(await store.updateTask(params.id, body, caller.principal)),
    }),
  };
}
