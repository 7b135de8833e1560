// What a run has seen, as far as the broker must know it. agentd keeps the marks of tasks; here
// are those of workspaces, so that a file carries them from one run to the next.
import type { CallId, Label } from '../../wire/words.ts';
import type { Run } from './runs.ts';
import type { Store } from './store.ts';
import { type AgentdClient, peerOptions, type Tool } from './tools/tool.ts';

/** The labels that spread to whatever is made from the text; agentd holds to the same. */
const SPREADING: ReadonlySet<Label> = new Set<Label>(['outside', 'secret', 'personal']);

export type Marks = {
  /** The marks that policy must know of before this tool is used. */
  of(run: Run, tool: Tool): Promise<readonly Label[]>;
  /** Told before the effect, so that nobody sees an output that has not marked them. */
  note(call: Noted): Promise<void>;
};

type Noted = { run: Run; callId: CallId; tool: Tool };

export function makeMarks(options: {
  agentd: Pick<AgentdClient, 'runMarks' | 'toolMark'>;
  store: Pick<Store, 'workspaceMarks' | 'markWorkspace'>;
  /** A run has a new mark: what is open to it may have to be narrowed. */
  onMarked: (run: Run) => Promise<void>;
}): Marks {
  const { agentd, store } = options;

  const learn = async (run: Run, labels: readonly Label[]): Promise<void> => {
    const before = run.labels.size;
    for (const label of labels) run.labels.add(label);
    if (run.labels.size > before) await options.onMarked(run);
  };

  const tell = async ({ run, callId }: Noted, labels: Label[], why: string): Promise<void> => {
    const fresh = labels.filter((label) => !run.labels.has(label));
    if (fresh.length === 0) return;
    const body = {
      ...{ run_id: run.runId, fence: run.fence, call_id: callId },
      ...{ labels: fresh, why, part: `mark.${fresh.join('+')}` },
    };
    const { labels: now } = await agentd.toolMark({ body }, peerOptions);
    await learn(run, now);
  };

  return {
    async of(run, tool) {
      if (!matters(tool)) return [...run.labels];
      const { labels } = await agentd.runMarks({ params: { id: run.runId } }, peerOptions);
      await learn(run, labels);
      return labels;
    },

    async note(noted) {
      const { run, tool } = noted;
      const brings = (tool.brings ?? []).filter((label) => SPREADING.has(label));
      await tell(noted, brings, `the output of ${tool.name}`);
      if (tool.box === undefined) return;
      const here = await store.workspaceMarks(run.rootTaskId);
      await tell(noted, here, 'files in the workspace');
      const own = [...run.labels].filter((label) => SPREADING.has(label) && !here.includes(label));
      if (tool.box === 'write' && own.length > 0) await store.markWorkspace(run.rootTaskId, own);
    },
  };
}

/** What stays in the box and can be undone is decided alike for marked runs and others. */
function matters({ reversibility, risk, level, touches, box }: Tool): boolean {
  const leavesTraces =
    reversibility === 'externally-reversible' || reversibility === 'irreversible';
  // Commands in a box have its way out; tools without a box that touch something reach outside.
  const canSend =
    (level !== 'L0' && level !== 'L1') || (touches !== undefined && box === undefined);
  return leavesTraces || risk === 'high' || canSend;
}
