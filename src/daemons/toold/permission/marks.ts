// What a run has seen, as far as the broker must know it. agentd keeps the marks of tasks; here
// are those of workspaces, so that a file carries them from one run to the next.
import { type CallId, type Label, MARKS } from '../../../wire/primitives.ts';
import type { ToolRun } from '../runs.ts';
import type { TooldStore } from '../store/store.ts';
import { type AgentdClient, peerOptions, type Tool } from '../tools/tool.ts';

export type Marks = {
  /** The marks that policy must know of before this tool is used. */
  marksFor(run: ToolRun, tool: Tool): Promise<readonly Label[]>;
  /** Told before the effect, so that nobody sees an output that has not marked them. */
  markBeforeCall(call: MarkedCall): Promise<void>;
  /** After the effect, before anybody sees it: a command may have fetched something by itself. */
  markFetchedBy(call: MarkedCall): Promise<void>;
  /** It has these marks now, by what agentd handed out. */
  addLabels(run: ToolRun, labels: readonly Label[]): Promise<void>;
  /** The run is over, perhaps in the middle of a command: what that fetched stays marked. */
  markAfterRun(run: ToolRun): Promise<void>;
};

type MarkedCall = { run: ToolRun; callId: CallId; tool: Tool };

export function makeMarks(options: {
  agentd: Pick<AgentdClient, 'runMarks' | 'toolMark'>;
  store: Pick<TooldStore, 'workspaceMarks' | 'markWorkspace'>;
  /** A run has a new mark: what is open to it may have to be narrowed. */
  onMarked: (run: ToolRun) => Promise<void>;
  /** Whether anything ever came in through the way out of this run's box. */
  hasReceived: (run: ToolRun) => Promise<boolean>;
}): Marks {
  const { agentd, store } = options;

  const learn = async (run: ToolRun, labels: readonly Label[]): Promise<void> => {
    const before = run.labels.size;
    for (const label of labels) run.labels.add(label);
    if (run.labels.size > before) await options.onMarked(run);
  };

  const sendMarks = async (
    { run, callId }: MarkedCall,
    labels: Label[],
    why: string,
  ): Promise<void> => {
    const fresh = labels.filter((label) => !run.labels.has(label));
    if (fresh.length === 0) return;
    const body = {
      run_id: run.runId,
      fence: run.fence,
      call_id: callId,
      labels: fresh,
      why,
      part: `mark.${fresh.join('+')}`,
    };
    const { labels: now } = await agentd.toolMark({ body }, peerOptions);
    await learn(run, now);
  };

  /** A file that was fetched is never without its mark, whoever reads it. */
  const markFetched = async (run: ToolRun): Promise<boolean> => {
    if (run.labels.has('outside') || !(await options.hasReceived(run))) return false;
    await store.markWorkspace(listWorkspaceKeys(run), ['outside']);
    return true;
  };

  return {
    async marksFor(run, tool) {
      if (!needsMarks(tool)) return [...run.labels];
      const { labels } = await agentd.runMarks({ params: { id: run.runId } }, peerOptions);
      await learn(run, labels);
      // What it would do in the box it does with what lies there.
      const here = tool.box === undefined ? [] : await store.workspaceMarks(listWorkspaceKeys(run));
      return [...new Set([...labels, ...here])];
    },

    async markBeforeCall(noted) {
      const { run, tool } = noted;
      const brings = MARKS.filter((mark) => tool.outputLabels?.includes(mark));
      await sendMarks(noted, brings, `the output of ${tool.name}`);
      if (tool.box === undefined) return;
      const here = await store.workspaceMarks(listWorkspaceKeys(run));
      await sendMarks(noted, here, 'files in the workspace');
      const own = MARKS.filter((mark) => run.labels.has(mark) && !here.includes(mark));
      if (tool.box === 'write' && own.length > 0)
        await store.markWorkspace(listWorkspaceKeys(run), own);
    },

    async markFetchedBy(noted) {
      const { run, tool } = noted;
      if (canRunCommands(tool) && (await markFetched(run)))
        await sendMarks(noted, ['outside'], `what ${tool.name} fetched`);
    },

    addLabels: learn,

    async markAfterRun(run) {
      if (run.mode === 'live') await markFetched(run);
    },
  };
}

/** Where its files are: those of the task tree, and a directory that other trees may use too. */
const listWorkspaceKeys = ({ rootTaskId, workspace }: ToolRun): string[] =>
  workspace === null ? [rootTaskId] : [rootTaskId, workspace];

/** What stays in the box and can be undone is decided alike for marked runs and others. */
function needsMarks({ reversibility, risk, level, touches, box }: Tool): boolean {
  const leavesTraces =
    reversibility === 'externally-reversible' || reversibility === 'irreversible';
  // Commands in a box have its way out; tools without a box that touch something reach outside.
  const canSend =
    (level !== 'L0' && level !== 'L1') || (touches !== undefined && box === undefined);
  // What a marked run writes marks the workspace, so its marks must be known.
  return leavesTraces || risk === 'high' || canSend || box === 'write';
}

/** Of the tools with a box, those that only ask its file server cannot reach anything. */
export const canRunCommands = ({ box, level }: Tool): boolean =>
  box !== undefined && level !== 'L0' && level !== 'L1';
