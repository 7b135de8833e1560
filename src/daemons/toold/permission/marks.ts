// Tracks the marks of runs as the broker needs them. agentd keeps the marks of tasks; toold keeps
// those of places, so that a file carries them from one run to the next.
import { posix } from 'node:path';
import { isWithin } from '../../../policy/paths.ts';
import { makeCallId } from '../../../wire/call-id.ts';
import { type CallId, type Label, MARKS } from '../../../wire/primitives.ts';
import { findOwnPlace, type ToolRun } from '../runs.ts';
import type { TooldStore } from '../store/store.ts';
import { type AgentdClient, peerOptions, type Tool } from '../tools/tool.ts';

export type Marks = {
  /** The marks that policy needs to decide on this tool. */
  marksFor(run: ToolRun, tool: Tool): Promise<readonly Label[]>;
  /** Marks the run before the effect, so that no output is read by an unmarked run. */
  markBeforeCall(call: MarkedCall): Promise<void>;
  /**
   * Marks the run after the effect, before its output is shown, if its command downloaded anything,
   * or if another run did so meanwhile into files that this call may have read.
   */
  markAfterCall(call: MarkedCall): Promise<void>;
  /**
   * Marks the run of a program with what its files have, and with what it has received so far;
   * and its files with its own.
   */
  markProgram(run: ToolRun): Promise<void>;
  /** Adds marks that agentd reported. */
  addLabels(run: ToolRun, labels: readonly Label[]): Promise<void>;
  /** Marks a directory, or a layer, like the layer whose changes are about to come there. */
  markTarget(change: MarkedChange): Promise<Label[]>;
  /** The run may have ended during a command: marks what that downloaded. */
  markAfterRun(run: ToolRun): Promise<void>;
};

/** `target`: a directory, or the task whose layer it is. */
type MarkedChange = {
  root_task_id: string;
  layer_task_id: string;
  target: string;
  labels: readonly Label[];
};
type MarkedCall = { run: ToolRun; callId: CallId; tool: Tool };
type NamedCall = Omit<MarkedCall, 'tool'>;

export function makeMarks(options: {
  agentd: Pick<AgentdClient, 'runMarks' | 'toolMark'>;
  store: Pick<TooldStore, 'placeMarks' | 'markPlaces'>;
  /** Called with each new mark, to narrow what the run may reach. */
  onMarked: (run: ToolRun) => Promise<void>;
  /** True when the run ever received bytes through its egress. */
  hasReceived: (run: ToolRun) => Promise<boolean>;
  /** The live runs that may receive anything through their egress. */
  listEgressRuns: () => readonly ToolRun[];
}): Marks {
  const { agentd, store } = options;
  /** Runs that ended, whose downloads are not marked yet. */
  const ending = new Set<Promise<unknown>>();

  const learn = async (run: ToolRun, labels: readonly Label[]): Promise<void> => {
    const before = run.labels.size;
    for (const label of labels) run.labels.add(label);
    if (run.labels.size > before) await options.onMarked(run);
  };

  const sendMarks = async (
    { run, callId }: NamedCall,
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

  /** Marks the workspace, so that a downloaded file marks every reader. */
  const markFetched = async (run: ToolRun): Promise<boolean> => {
    if (run.labels.has('outside') || !(await options.hasReceived(run))) return false;
    await store.markPlaces(listWritten(run), ['outside']);
    return true;
  };

  /** Marks the files that this run can read and another run has downloaded, or still downloads. */
  const markDownloadsAround = async (run: ToolRun): Promise<void> => {
    const places = listPlaces(run);
    const isNear = (other: ToolRun) =>
      other.runId !== run.runId &&
      listWritten(other).some((place) => places.some((own) => overlap(own, place)));
    const around = options.listEgressRuns().filter(isNear);
    await Promise.all([...around.map(markFetched), ...ending]);
  };

  /** Marks the run with the marks of the files it works on, and those files with its own. */
  const markByFiles = async (call: MarkedCall): Promise<void> => {
    const { run, tool } = call;
    const here = await store.placeMarks(listPlaces(run));
    await sendMarks(call, here, 'files in the workspace');
    const own = MARKS.filter((mark) => run.labels.has(mark) && !here.includes(mark));
    if (tool.box === 'write' && own.length > 0) await store.markPlaces(listWritten(run), own);
  };

  return {
    async marksFor(run, tool) {
      if (!needsMarks(tool)) return [...run.labels];
      const { labels } = await agentd.runMarks({ params: { id: run.runId } }, peerOptions);
      await learn(run, labels);
      // A tool in the box may use whatever the workspace contains.
      const here = tool.box === undefined ? [] : await store.placeMarks(listPlaces(run));
      return [...new Set([...labels, ...here])];
    },

    async markBeforeCall(call) {
      const { tool } = call;
      const marks = MARKS.filter((mark) => tool.outputLabels?.includes(mark));
      await sendMarks(call, marks, `the output of ${tool.name}`);
      if (tool.box !== undefined) await markByFiles(call);
    },

    async markAfterCall(call) {
      const { run, tool } = call;
      if (tool.box === undefined) return;
      if (canRunCommands(tool) && (await markFetched(run)))
        await sendMarks(call, ['outside'], `what ${tool.name} fetched`);
      if (!run.labels.has('outside')) await markDownloadsAround(run);
      await markByFiles(call);
    },

    async markProgram(run) {
      // It makes no calls: the marks are recorded under an id that none has.
      const call = { run, callId: makeCallId(run.runId, 't', 0) };
      const here = await store.placeMarks(listPlaces(run));
      await sendMarks(call, here, 'files in the workspace');
      if (await markFetched(run)) await sendMarks(call, ['outside'], 'what the program received');
      const own = MARKS.filter((mark) => run.labels.has(mark) && !here.includes(mark));
      if (own.length > 0) await store.markPlaces(listWritten(run), own);
    },

    addLabels: learn,

    async markTarget({ root_task_id: tree, layer_task_id: layer, target, labels }) {
      const own = await store.placeMarks([toLayerPlace(tree, layer)]);
      const marks = MARKS.filter((mark) => labels.includes(mark) || own.includes(mark));
      const isPath = target.startsWith('/');
      const place = isPath ? posix.resolve(target) : toLayerPlace(tree, target);
      if (marks.length > 0) await store.markPlaces([place], marks);
      return marks;
    },

    async markAfterRun(run) {
      if (run.mode !== 'live') return;
      const marking = markFetched(run);
      // A failure withholds no result of others: it is logged by the caller.
      const settled = marking.catch(() => false).finally(() => ending.delete(settled));
      ending.add(settled);
      await marking;
    },
  };
}

/** The task tree and its layers, and a directory that other trees may share, or use a part of. */
const listPlaces = ({ rootTaskId, layers, workspace, home }: ToolRun): string[] => [
  ...layers.map((layer) => toLayerPlace(rootTaskId, layer)),
  ...(home === undefined ? [] : [home]),
  ...(workspace === null ? [] : [posix.resolve(workspace)]),
];

/** Those of subtasks are named below their tree, and go with it. */
const toLayerPlace = (rootTaskId: string, layerTaskId: string): string =>
  layerTaskId === rootTaskId ? rootTaskId : `${rootTaskId}/${layerTaskId}`;

const overlap = (a: string, b: string): boolean => isWithin(a, b) || isWithin(b, a);

/** Writes above a directory are not in it until a person applies them. */
const listWritten = (run: ToolRun): string[] =>
  run.isLayered ? [toLayerPlace(run.rootTaskId, findOwnPlace(run))] : listPlaces(run);

/** False for tools that stay in the box and can be undone: marks do not change that decision. */
function needsMarks({ reversibility, risk, level, touches, box }: Tool): boolean {
  const leavesTraces =
    reversibility === 'externally-reversible' || reversibility === 'irreversible';
  // Commands in a box have its egress; tools without a box that touch something reach outside.
  const canSend =
    (level !== 'L0' && level !== 'L1') || (touches !== undefined && box === undefined);
  // A marked run's writes mark the workspace, so its marks must be known.
  return leavesTraces || risk === 'high' || canSend || box === 'write';
}

/** Tools that only use the box's file server run no commands, and so reach nothing. */
export const canRunCommands = ({ box, level }: Tool): boolean =>
  box !== undefined && level !== 'L0' && level !== 'L1';
