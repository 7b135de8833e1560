// Briefings that the first release recorded. They name no tools: its runners asked for them at
// every activation. What such a run was shown stands in its model calls, and it must be shown the
// same again, or its recorded calls would not be recognised.
import type { Client } from '../../platform/link.ts';
import type { modeldRoutes, ToolSpec } from '../../wire/modeld.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { ToolView, tooldRoutes } from '../../wire/toold.ts';
import { grantFor, type RecordedBriefing } from './activations.ts';
import type { RunRow } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

/** The parts that came after the first release may be missing. */
export type EarlierBriefing = Omit<RecordedBriefing, 'tools' | 'task'> & {
  tools?: ToolView[];
  task: Omit<RecordedBriefing['task'], 'workspace'> & { workspace?: string | null };
};
export type EarlierBriefings = {
  /** The same briefing if nothing is missing. */
  complete(run: RunRow, recorded: EarlierBriefing): Promise<RecordedBriefing>;
};

/** A run may also make calls of other kinds, which say nothing of its tools. */
const CALLS_READ_MAX = 100;

export function makeEarlierBriefings({
  store,
  modeld,
  toold,
}: {
  store: AgentdStore;
  modeld: Pick<Client<typeof modeldRoutes>, 'listCalls' | 'getCall'>;
  toold: Pick<Client<typeof tooldRoutes>, 'listTools'>;
}): EarlierBriefings {
  const askedWith = async (runId: RunId): Promise<ToolSpec[] | undefined> => {
    const query = { run_id: runId, limit: CALLS_READ_MAX };
    const { calls } = await modeld.listCalls({ query });
    for (const { call_id: id } of calls) {
      const { params } = await modeld.getCall({ params: { id } });
      const { tools } = params as { tools?: ToolSpec[] };
      if (tools?.every((tool) => tool.input_schema !== undefined)) return tools;
    }
    return undefined;
  };

  const toolsOf = async (run: RunRow): Promise<ToolView[]> => {
    const [asked, { tools }] = await Promise.all([askedWith(run.id as RunId), toold.listTools({})]);
    if (asked !== undefined) return asked.map((spec) => viewOf(spec, tools));
    const grant = await grantFor(store, run.agent, await store.taskRow(run.task_id));
    return tools.filter(({ name }) => grant.tools.includes(name));
  };

  return {
    async complete(run, recorded) {
      const { tools = await toolsOf(run), task } = recorded;
      return { ...recorded, tools, task: { ...task, workspace: task.workspace ?? null } };
    },
  };
}

/**
 * As the model was told then; the rest as it is now. One that is gone is refused when it is called.
 */
function viewOf({ name, description, input_schema }: ToolSpec, tools: ToolView[]): ToolView {
  const now = tools.find((tool) => tool.name.replaceAll('.', '_') === name) ?? {
    name: name.replace('_', '.'),
    output_schema: {},
    risk: 'high' as const,
    reversibility: 'irreversible' as const,
    idempotent: false,
    level: 'L2' as const,
    capabilities: [],
  };
  return { ...now, description: description ?? '', input_schema };
}
