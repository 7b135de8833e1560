// Row types of agentd's tables, and their conversion to wire views.
import { toTimestamp } from '../../../platform/clock.ts';
import type {
  ArtifactView,
  MessageView,
  RunView,
  TaskView,
  WaitView,
} from '../../../wire/agentd.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { WorkspaceMode } from '../../../wire/sandboxd/layers.ts';

export type TaskRow = {
  id: string;
  parent_task_id: string | null;
  root_task_id: string;
  context_id: string;
  depth: number;
  goal: string;
  created_by: string;
  assigned_to: string | null;
  status: string;
  reason: string | null;
  priority: number;
  inputs: string;
  limits: string;
  delegation: string | null;
  deadline_ms: number | null;
  expires_ms: number | null;
  retry_of: string | null;
  workspace: string | null;
  /** Null in rows of earlier releases, which are live, and in recorded responses of them. */
  workspace_mode?: string | null;
  /** JSON of the subtasks with layers of their own that it works above; absent: none. */
  layers?: string | null;
  /** JSON of a TaskProgram; absent in recorded responses of earlier releases. */
  program?: string | null;
  /** The person who created it with a key of their own; absent like `program`. */
  owner?: string | null;
  /** A FailurePolicy; null or absent: stop. These are absent like `program`. */
  on_failure?: string | null;
  attempts_max?: number | null;
  attempt?: number;
  /** The cost of its own model calls, when it finished. */
  cost_microusd?: number | null;
  result: string | null;
  result_ref: string | null;
  error: string | null;
  labels: string;
  rehearsal: number;
  created_ms: number;
  updated_ms: number;
  ended_ms: number | null;
};
/** The program that a person started instead of a runner. */
export type TaskProgram = {
  argv: string[];
  model?: string;
  hosts?: string[];
  name?: string;
  /** Kept for the next program of the same agent and name, or directory. */
  home?: string;
};

export function readProgram({ program }: TaskRow): TaskProgram | undefined {
  return program == null ? undefined : (JSON.parse(program) as TaskProgram);
}

export type RunRow = {
  id: string;
  task_id: string;
  agent: string;
  priority: number;
  fence: number;
  status: string;
  outcome: string | null;
  activations: number;
  crashes: number;
  not_before_ms: number;
  lease_until_ms: number | null;
  /** Without the parts it shares with other runs; see briefings.ts. */
  briefing: string | null;
  /** SHA-256 of the persona in its briefing; null for programs and runs of earlier releases. */
  persona_hash: string | null;
  created_ms: number;
  ended_ms: number | null;
};
/** The columns of a RunRow without the text of its briefing, which is large. */
export const RUN_COLUMNS = `id, task_id, agent, priority, fence, status, outcome, activations,
  crashes, not_before_ms, lease_until_ms, persona_hash, created_ms, ended_ms,
  CASE WHEN briefing IS NULL THEN NULL ELSE '' END AS briefing`;
export type WaitRow = {
  id: string;
  /** Empty, like call_id, in agentd's own question about a task; see matches.ts. */
  run_id: string;
  task_id: string;
  call_id: string;
  kind: string;
  ended_by: string;
  question: string | null;
  choices: string;
  child_task_id: string | null;
  from_principal: string | null;
  message_id: string | null;
  due_ms: number | null;
  expires_ms: number | null;
  next_ms: number | null;
  status: string;
  needed: number;
  outcome: string | null;
  answer: string | null;
  answered_by: string | null;
  opened_ms: number;
  ended_ms: number | null;
};
export type MessageRow = {
  id: string;
  type: string;
  context_id: string;
  task_id: string | null;
  from_principal: string;
  to_principal: string;
  in_reply_to: string | null;
  labels: string;
  parts: string;
  pair_seq: number;
  sent_ms: number;
  delivered_ms: number | null;
  /** JSON of a MessageTurn; absent in recorded responses of earlier releases. */
  turn?: string | null;
};
export type ArtifactRow = {
  id: string;
  name: string;
  mime_type: string;
  size_bytes: number;
  object_hash: string;
  created_by: string;
  task_id: string | null;
  context_id: string | null;
  labels: string;
  created_ms: number;
};
export type AgentRow = {
  name: string;
  status: string;
  linux_user: string;
  manifest_hash: string;
  manifest_file: string | null;
  spec: string;
  created_ms: number;
  updated_ms: number;
};

export const time = (ms: number | null): string | null =>
  ms === null ? null : toTimestamp(Number(ms));
export const parse = (text: string | null): unknown => (text === null ? null : JSON.parse(text));

/** The hold on a tree, and the times at which parts of it were pruned. */
export type TreeRow = {
  kept_by: string | null;
  reason: string | null;
  kept_ms: number | null;
  workspaces_ms: number | null;
  homes_ms: number | null;
  model_contexts_ms: number | null;
};

function toRetentionView(tree: TreeRow | undefined): Pick<TaskView, 'kept' | 'pruned'> {
  if (tree === undefined) return {};
  const { kept_ms, kept_by, reason } = tree;
  const pruned = (['workspaces', 'homes', 'model_contexts'] as const).flatMap((part) => {
    const at = time(tree[`${part}_ms`]);
    return at === null ? [] : [[part, at] as const];
  });
  return {
    ...(kept_ms === null ? {} : { kept: { by: kept_by!, reason: reason!, since: time(kept_ms)! } }),
    ...(pruned.length === 0 ? {} : { pruned: Object.fromEntries(pruned) }),
  };
}

/** Returns null for a tree that has its own directory. */
export function readWorkspaceMode(
  row: Pick<TaskRow, 'workspace' | 'workspace_mode'>,
): WorkspaceMode | null {
  if (row.workspace === null) return null;
  return row.workspace_mode === 'layer' ? 'layer' : 'live';
}

/** The subtasks, outermost first, that have the layers between the tree's and the one it uses. */
export const readLayers = ({ layers }: Pick<TaskRow, 'layers'>): string[] =>
  layers == null ? [] : (JSON.parse(layers) as string[]);

/** The task that has the layer which this one works on. */
export const findLayerTask = (row: Pick<TaskRow, 'layers' | 'root_task_id'>): string =>
  readLayers(row).at(-1) ?? row.root_task_id;

export function toTaskView(row: TaskRow, after: string[], tree: TreeRow | undefined): TaskView {
  const { program: _, layers: __, cost_microusd: ___, ...columns } = row;
  const program = readProgram(row);
  const layer = readLayers(row).at(-1) as TaskId | undefined;
  return {
    ...columns,
    ...(layer === undefined ? {} : { layer_task_id: layer }),
    ...(program === undefined ? {} : { program }),
    workspace_mode: readWorkspaceMode(row),
    after,
    on_failure: row.on_failure ?? 'stop',
    attempts_max: row.attempts_max ?? 1,
    attempt: row.attempt ?? 1,
    inputs: parse(row.inputs),
    limits: parse(row.limits),
    delegation: parse(row.delegation),
    deadline: time(row.deadline_ms),
    error: parse(row.error),
    labels: parse(row.labels),
    rehearsal: row.rehearsal === 1,
    created_at: time(row.created_ms),
    updated_at: time(row.updated_ms),
    ended_at: time(row.ended_ms),
    ...toRetentionView(tree),
  } as unknown as TaskView;
}

export function toRunView(row: RunRow): RunView {
  return {
    id: row.id,
    task_id: row.task_id,
    agent: row.agent,
    fence: row.fence,
    status: row.status,
    outcome: row.outcome,
    activations: row.activations,
    crashes: row.crashes,
    persona_sha256: row.persona_hash,
    lease_until: time(row.lease_until_ms),
    created_at: time(row.created_ms),
    ended_at: time(row.ended_ms),
  } as RunView;
}

export function toWaitView(row: WaitRow): WaitView {
  return {
    id: row.id,
    run_id: row.run_id === '' ? null : row.run_id,
    task_id: row.task_id,
    call_id: row.call_id === '' ? null : row.call_id,
    kind: row.kind,
    by: parse(row.ended_by),
    question: row.question,
    choices: parse(row.choices),
    child_task_id: row.child_task_id,
    from: row.from_principal,
    due_at: time(row.due_ms),
    expires_at: time(row.expires_ms),
    status: row.status,
    outcome: row.outcome,
    answer: parse(row.answer),
    answered_by: row.answered_by,
    opened_at: time(row.opened_ms),
    ended_at: time(row.ended_ms),
  } as WaitView;
}

export function toMessageView(row: MessageRow): MessageView {
  return {
    id: row.id,
    type: row.type,
    context_id: row.context_id,
    task_id: row.task_id,
    from: row.from_principal,
    to: row.to_principal,
    in_reply_to: row.in_reply_to,
    labels: parse(row.labels),
    parts: parse(row.parts),
    pair_seq: Number(row.pair_seq),
    sent_at: time(row.sent_ms),
    delivered_at: time(row.delivered_ms),
    ...(row.turn == null ? {} : { turn: parse(row.turn) }),
  } as MessageView;
}

export function toArtifactView(row: ArtifactRow): ArtifactView {
  return {
    id: row.id,
    ref: `artifact://${row.id}`,
    name: row.name,
    mime_type: row.mime_type,
    size_bytes: Number(row.size_bytes),
    object_hash: row.object_hash,
    created_by: row.created_by,
    task_id: row.task_id,
    context_id: row.context_id,
    labels: parse(row.labels),
    created_at: time(row.created_ms),
  } as ArtifactView;
}
