// toold's routes. They convert between the wire and the service, and decide nothing.
import { toTimestamp } from '../../platform/clock.ts';
import type { Handlers } from '../../platform/dispatch.ts';
import { cutPage, readNumberCursor } from '../../platform/page.ts';
import { isBasicTool } from '../../policy/capabilities.ts';
import type { Caller, RunCaller } from '../../wire/caller.ts';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import { fault } from '../../wire/errors.ts';
import type { FileProblem } from '../../wire/primitives.ts';
import type { PruneAnswer, PruneBody } from '../../wire/prune.ts';
import type { ProgramCommand } from '../../wire/sandboxd/programs.ts';
import type { ToolCallView, tooldRoutes } from '../../wire/toold.ts';
import type { OpenedProgram } from './boxes/run-boxes.ts';
import type { Containment } from './permission/containment.ts';
import type { Marks } from './permission/marks.ts';
import type { WhatIf } from './permission/what-if.ts';
import type { ToolRun, ToolRuns } from './runs.ts';
import type { TooldService } from './service.ts';
import type { ToolCallRow, TooldStore } from './store/store.ts';
import type { Tool } from './tools/tool.ts';

export function makeHandlers(options: {
  service: TooldService;
  runs: ToolRuns;
  store: TooldStore;
  marks: Pick<Marks, 'addLabels' | 'markTarget'>;
  containment: Pick<Containment, 'suspend' | 'resume'>;
  whatIf: WhatIf;
  toolNamed: (name: string) => Tool | undefined;
  problems: () => readonly FileProblem[];
  openProgram: (run: ToolRun, command: ProgramCommand) => Promise<OpenedProgram>;
  prune: (tree: PruneBody) => Promise<PruneAnswer>;
  eraseCopies: (order: EraseCopies) => Promise<ErasedCopies>;
}): Handlers<typeof tooldRoutes> {
  const { service, runs, store, marks, containment } = options;
  const findTool = (name: string) => {
    const tool = service.listTools(undefined).find((view) => view.name === name);
    if (tool === undefined)
      throw fault('not_found', `tool ${name} not found`, { hint: 'Run agentctl tool list.' });
    return { tool };
  };
  return {
    listTools: async ({ caller }) => ({
      tools: service.listTools(runOrNone(caller)),
      ...(caller.kind === 'operator' ? { problems: [...options.problems()] } : {}),
    }),
    call: async ({ caller, body }) => service.call(assertRun(caller), body),
    async getCall({ caller, params }) {
      const row = await store.findCall(params.id);
      const run = runOrNone(caller);
      // A run must not learn that another run's call exists.
      if (row === undefined || (run !== undefined && row.run_id !== run.runId)) {
        const pruned = run === undefined ? await store.findPrunedCall(params.id) : undefined;
        if (pruned !== undefined) throw pruned;
        throw fault('not_found', `call ${params.id} not found`, {
          hint: 'Run agentctl audit task ID --json for the calls of a task.',
        });
      }
      return { call: toCallView(row) };
    },
    async listCalls({ query }) {
      const { limit, cursor: after, ...filter } = query;
      const before = readNumberCursor(after) ?? Number.MAX_SAFE_INTEGER;
      const found = await store.listCalls(filter, before, limit + 1);
      if (found.length === 0) {
        const pruned = await store.findPrunedRun(filter);
        if (pruned !== undefined) throw pruned;
      }
      const { rows, cursor } = cutPage(found, limit, ({ place }) => place);
      return { calls: rows.map(toCallView), cursor };
    },
    async checkArguments({ params, body }) {
      findTool(params.name);
      return { problem: service.findArgumentProblem(params.name, body.arguments) ?? null };
    },
    async decideCall({ params, body }) {
      findTool(params.name);
      const { agent, arguments: given, labels = [] } = body;
      const tool = options.toolNamed(params.name)!;
      return { decision: await options.whatIf({ agent, tool, arguments: given, labels }) };
    },
    async suspendTool({ caller, params, body }) {
      findTool(params.name);
      if (isBasicTool(params.name))
        throw fault('bad_request', `${params.name} cannot be suspended: every run needs it`);
      await containment.suspend(params.name, caller.principal, body.reason);
      return findTool(params.name);
    },
    async resumeTool({ caller, params }) {
      findTool(params.name);
      await containment.resume(params.name, caller.principal);
      return findTool(params.name);
    },
    async openProgram({ params, body }) {
      const { fence, command } = body;
      const run = runs.current({ runId: params.id, fence, mode: 'live' });
      return options.openProgram(run, command);
    },
    markPlace: async ({ body }) => ({
      labels: await marks.markTarget(body),
    }),
    prune: ({ body }) => options.prune(body),
    eraseCopies: ({ body }) => options.eraseCopies(body),
    expireTombstones: async ({ body }) => ({
      expired: await store.expireTombstones(Date.parse(body.before)),
    }),
    admitRun: async ({ params, body }) => ({ socket: await runs.admit(params.id, body) }),
    dismissRun: async ({ params, query }) => ({
      dismissed: await runs.dismiss(params.id, query.fence),
    }),
    async markRun({ params, body }) {
      const run = runs.find(params.id);
      if (run !== undefined) await marks.addLabels(run, body.labels);
      return { labels: [...(run?.labels ?? [])] };
    },
  };
}

function runOrNone(caller: Caller): RunCaller | undefined {
  return caller.kind === 'run' ? caller : undefined;
}

function assertRun(caller: Caller): RunCaller {
  if (caller.kind !== 'run') throw fault('forbidden_caller', 'only a run can call tools');
  return caller;
}

function toCallView(row: ToolCallRow): ToolCallView {
  const parsed = (text: string | null) =>
    text === null ? null : (JSON.parse(text) as Record<string, unknown>);
  return {
    call_id: row.call_id,
    run_id: row.run_id,
    fence: row.fence,
    task_id: row.task_id,
    agent: row.agent,
    tool: row.tool,
    purpose: row.purpose,
    arguments: parsed(row.arguments) ?? {},
    arguments_hash: row.arguments_hash,
    status: row.status,
    result: parsed(row.result),
    error: parsed(row.error),
    wait_id: row.wait_id,
    attempts: row.attempts,
    created_at: toTimestamp(row.created_ms),
    ended_at: row.ended_ms === null ? null : toTimestamp(row.ended_ms),
  };
}
