// Completes briefings that the first release recorded without tools: its runners listed tools at
// every activation. A resumed run must be shown the tools of its recorded model calls, or those
// calls would not match on replay.
import type { Client } from '../../platform/link.ts';
import type { modeldRoutes, ToolSpec } from '../../wire/modeld.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { ToolView, tooldRoutes } from '../../wire/toold.ts';
import { grantFor, type RecordedBriefing } from './activations.ts';
import type { RunRow } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

type LaterField = 'workspace' | 'workspace_mode' | 'on_failure' | 'attempts_max' | 'attempt';
/** Fields added after the first release may be missing. */
export type LegacyBriefing = Omit<RecordedBriefing, 'tools' | 'task'> & {
  tools?: ToolView[];
  task: Omit<RecordedBriefing['task'], LaterField> &
    Partial<Pick<RecordedBriefing['task'], LaterField>>;
};
export type LegacyBriefings = {
  /** Returns the briefing unchanged if nothing is missing. */
  complete(run: RunRow, recorded: LegacyBriefing): Promise<RecordedBriefing>;
};

/** Some calls list no tools, so several may have to be read. */
const CALLS_READ_MAX = 100;

export function makeLegacyBriefings(deps: {
  store: AgentdStore;
  modeld: Pick<Client<typeof modeldRoutes>, 'listCalls' | 'getCall'>;
  toold: Pick<Client<typeof tooldRoutes>, 'listTools'>;
}): LegacyBriefings {
  const { store, modeld, toold } = deps;
  const findShownTools = async (runId: RunId): Promise<ToolSpec[] | undefined> => {
    const query = { run_id: runId, limit: CALLS_READ_MAX };
    const { calls } = await modeld.listCalls({ query });
    for (const { call_id: id } of calls) {
      const { params } = await modeld.getCall({ params: { id } });
      const { tools } = params as { tools?: ToolSpec[] };
      if (tools?.every((tool) => tool.input_schema !== undefined)) return tools;
    }
    return undefined;
  };

  const findTools = async (run: RunRow): Promise<ToolView[]> => {
    const [shown, { tools }] = await Promise.all([
      findShownTools(run.id as RunId),
      toold.listTools({}),
    ]);
    if (shown !== undefined) return shown.map((spec) => restoreView(spec, tools));
    const grant = await grantFor(store, run.agent, await store.taskRow(run.task_id));
    return tools.filter(({ name }) => grant.tools.includes(name));
  };

  return {
    async complete(run, recorded) {
      const { tools = await findTools(run), task } = recorded;
      // Its context had no text about a mode, and must stay as it was.
      const workspace_mode = task.workspace_mode ?? null;
      // Not part of its context.
      const { on_failure, attempts_max, attempt } = await store.task(run.task_id);
      return {
        ...recorded,
        tools,
        task: {
          on_failure,
          attempts_max,
          attempt,
          ...task,
          workspace: task.workspace ?? null,
          workspace_mode,
        },
      };
    },
  };
}

/** Combines the recorded description with the current tool. Calling a removed tool is refused. */
function restoreView({ name, description, input_schema }: ToolSpec, tools: ToolView[]): ToolView {
  const current = tools.find((tool) => tool.name.replaceAll('.', '_') === name) ?? {
    name: name.replace('_', '.'),
    output_schema: {},
    risk: 'high' as const,
    reversibility: 'irreversible' as const,
    idempotent: false,
    level: 'L2' as const,
    capabilities: [],
  };
  return { ...current, description: description ?? '', input_schema };
}
