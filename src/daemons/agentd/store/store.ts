// What agentd's store offers: each method is one transaction named by its intent. Time is compared
// in here. What the transactions do is in the files beside this one, which open-store.ts puts
// together; views for reading are in views.ts.
import type { Outbox } from '../../../platform/outbox.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { AgentSet } from './agents.ts';
import type { NewMessage } from './messages.ts';
import type { ArtifactRow, MessageRow, RunRow, TaskRow, WaitRow } from './rows.ts';
import type { Claim, ClaimOptions, Crash } from './runs.ts';
import type { Ending, NewTask } from './tasks.ts';
import type { Views } from './views.ts';
import type { NewWait } from './waits.ts';

export type RunKey = { runId: string; fence: number };
/** A call that toold makes for a run: it happens once, whatever is asked again. */
/** `part` tells apart several things that one call needs done. */
export type RunCall = RunKey & { callId: string; part?: string; requestHash: string };

export type Due = { expiredLeases: RunRow[] };

export type AgentdStore = Views & {
  outbox: Outbox;
  applyAgents(set: AgentSet): Promise<void>;
  putAgent(agent: AgentSet['agents'][number], by: string): Promise<void>;
  setAgentStatus(
    name: string,
    status: 'active' | 'paused' | 'stopped' | 'removed',
    by: string,
  ): Promise<void>;
  createTask(task: NewTask, once: IdempotencyKey | undefined): Promise<TaskRow>;
  /** What was answered before under this key; a different request under it is refused. */
  recall<T>(once: IdempotencyKey): Promise<T | undefined>;
  recallCall<T>(call: RunCall): Promise<T | undefined>;
  addRun(taskId: string): Promise<string>;
  claimRuns(options: ClaimOptions): Promise<Claim[]>;
  saveBriefing(runId: string, briefing: unknown): Promise<void>;
  renewLease(key: RunKey, leaseMs: number): Promise<number>;
  inbox(key: RunKey, step: number): Promise<MessageRow[]>;
  park(key: RunKey, callIds: string[]): Promise<boolean>;
  activationEnded(key: RunKey, crash: Crash): Promise<void>;
  /** Gives back every live run without counting a crash; how many there were. */
  recoverRuns(why?: string): Promise<number>;
  delegate(
    call: RunCall,
    task: NewTask,
    wait: { expiresMs?: number } | undefined,
    childrenMax: number,
  ): Promise<{ task: TaskRow; wait: WaitRow | null }>;
  finish(call: RunCall, ending: Ending): Promise<TaskRow>;
  breakRun(key: RunKey, reason: string): Promise<boolean>;
  sendFromRun(
    call: RunCall,
    message: NewMessage,
    wait: { expiresMs: number } | undefined,
  ): Promise<{ message: MessageRow; wait: WaitRow | null }>;
  send(message: NewMessage, once: IdempotencyKey | undefined): Promise<MessageRow>;
  openWait(call: RunCall, wait: Omit<NewWait, 'run' | 'callId'>): Promise<WaitRow>;
  answerWait(id: string, answer: string, by: string): Promise<WaitRow>;
  /** False when the call does not wait for it yet. */
  endApprovalWait(ended: ApprovalEnded): Promise<boolean>;
  putArtifact(
    artifact: NewArtifact,
    call: RunCall | undefined,
    once: IdempotencyKey | undefined,
  ): Promise<ArtifactRow>;
  noteRead(call: RunCall, artifact: { id: string; labels: Label[] }): Promise<null>;
  /** What the call brought into the run marks its task; what was new. */
  mark(call: RunCall, labels: readonly Label[], why: string): Promise<Label[]>;
  cancelTask(id: string, reason: string, by: string): Promise<TaskRow>;
  assignTask(id: string, agent: string, by: string): Promise<TaskRow>;
  processDue(): Promise<Due>;
  setHalt(reason: string, by: string): Promise<number>;
  liftHalt(by: string): Promise<void>;
  runtimeEvent(
    event: 'runtime.started' | 'runtime.stopped' | 'policy.loaded' | 'policy.refused',
    data: Record<string, string | number>,
  ): Promise<void>;
  close(): Promise<void>;
};

export type ApprovalEnded = {
  approvalId: string;
  run_id: string;
  call_id: string;
  outcome: 'answered' | 'expired';
  decision: string;
  by: string;
};

export type NewArtifact = {
  id: string;
  name: string;
  mimeType: string;
  sizeBytes: number;
  hash: string;
  createdBy: string;
  taskId: string | null;
  contextId: string | null;
  labels: Label[];
};
