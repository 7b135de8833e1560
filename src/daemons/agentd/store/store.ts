// The interface of agentd's store: each method is one transaction named by its intent.
// open-store.ts combines the implementations; reads are in views.ts.
import type { Outbox } from '../../../platform/outbox.ts';
import type { RestoreRecord } from '../../../platform/restore-record.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { ExternalMailOutcome } from '../../../wire/maild/external.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { ThreadLimits } from '../threads/turn-rules.ts';
import type { AgentSet } from './agents.ts';
import type { ArtifactPruneMethods } from './artifact-pruning.ts';
import type { TaskEdit } from './assign-task.ts';
import type { BriefingMembers } from './briefings.ts';
import type { Ending } from './end-task.ts';
import type { EpisodeMethods } from './episodes.ts';
import type { ErasureMethods } from './erasures.ts';
import type { KeepMethods } from './kept-trees.ts';
import type { LayerActionMethods } from './layer-actions.ts';
import type { NewMessage } from './messages.ts';
import type { NoticeMethods } from './notices.ts';
import type { PruneMethods } from './prune-methods.ts';
import type { PrunePartMethods } from './prune-part.ts';
import type { ArtifactRow, MessageRow, RunRow, TaskRow, WaitRow } from './rows.ts';
import type { Claim, ClaimOptions, Crash, ProgramEnd } from './runs.ts';
import type { NewTask } from './tasks.ts';
import type { TurnRefusal } from './threads.ts';
import type { Views } from './views.ts';
import type { NewWait } from './waits.ts';

export type RunKey = { runId: string; fence: number };
/** A call of toold for a run; a repeat has no effect. `part` distinguishes several per call. */
export type RunCall = RunKey & { callId: string; part?: string; requestHash: string };

type OtherMethods = Views &
  KeepMethods &
  EpisodeMethods &
  NoticeMethods &
  ErasureMethods &
  LayerActionMethods &
  PruneMethods &
  PrunePartMethods &
  ArtifactPruneMethods;

export type AgentdStore = OtherMethods & {
  outbox: Outbox;
  applyAgents(set: AgentSet): Promise<void>;
  putAgent(agent: AgentSet['agents'][number], by: string): Promise<void>;
  setAgentStatus(
    name: string,
    status: 'active' | 'paused' | 'stopped' | 'removed',
    by: string,
  ): Promise<void>;
  /** Creates all of them, in this order, and sends the messages; or nothing. */
  createTasks(
    tasks: readonly NewTask[],
    messages: readonly NewMessage[],
    once: IdempotencyKey,
  ): Promise<TaskRow[]>;
  createTask(task: NewTask, once: IdempotencyKey | undefined): Promise<TaskRow>;
  /** Returns the recorded response for this key. Throws if the request differs. */
  findRecorded<T>(once: IdempotencyKey): Promise<T | undefined>;
  findRecordedCall<T>(call: RunCall): Promise<T | undefined>;
  addRun(taskId: string): Promise<string>;
  claimRuns(options: ClaimOptions): Promise<Claim[]>;
  /** Creates the task of a person's program and claims its run. */
  createProgram(task: NewTask, options: Omit<ClaimOptions, 'slots'>): Promise<Claim>;
  /** Ends the task of a program whose process has ended. No effect if it has ended already. */
  endProgram(key: RunKey, end: ProgramEnd): Promise<void>;
  saveBriefing(runId: string, briefing: BriefingMembers): Promise<void>;
  renewLease(key: RunKey, leaseMs: number): Promise<number>;
  inbox(key: RunKey, step: number): Promise<MessageRow[]>;
  park(key: RunKey, callIds: string[]): Promise<boolean>;
  endActivation(key: RunKey, crash: Crash): Promise<void>;
  /** Requeues every live run without counting a crash, and returns how many there were. */
  recoverRuns(reason?: string): Promise<number>;
  delegate(
    call: RunCall,
    task: NewTask,
    wait: { expiresMs?: number } | undefined,
    bounds: { childrenMax: number; limits: ThreadLimits },
  ): Promise<{ task: TaskRow; wait: WaitRow | null } | TurnRefusal>;
  /** Only a task that the run's task delegated. */
  updateSubtask(call: RunCall, id: string, change: TaskEdit): Promise<TaskRow>;
  finish(call: RunCall, ending: Ending): Promise<TaskRow>;
  breakRun(key: RunKey, reason: string): Promise<boolean>;
  sendFromRun(
    call: RunCall,
    message: NewMessage,
    wait: { expiresMs: number } | undefined,
    exchange: { limits: ThreadLimits; costMicrousd?: number; questionExpiresMs: number },
  ): Promise<{ message: MessageRow; wait: WaitRow | null } | TurnRefusal>;
  send(message: NewMessage, once: IdempotencyKey | undefined): Promise<MessageRow>;
  openWait(call: RunCall, wait: Omit<NewWait, 'run' | 'callId'>): Promise<WaitRow>;
  answerWait(id: string, answer: string, by: string): Promise<WaitRow>;
  /** Returns false if the call is not waiting for it yet. */
  endApprovalWait(ended: ApprovalEnded): Promise<boolean>;
  endMailWait(ended: MailEnded): Promise<boolean>;
  putArtifact(
    artifact: NewArtifact,
    call: RunCall | undefined,
    once: IdempotencyKey | undefined,
  ): Promise<ArtifactRow>;
  /** Only what the run's agent stored itself. */
  shareArtifact(call: RunCall, id: string): Promise<null>;
  /** Newest first. */
  sharedArtifacts(limit: number): Promise<ArtifactRow[]>;
  isShared(id: string): Promise<boolean>;
  recordProposal(
    call: RunCall,
    accepted: { kind: 'persona' | 'skill'; name: string; sha256: string; approvalId: string },
  ): Promise<null>;
  recordArtifactRead(call: RunCall, artifact: { id: string; labels: Label[] }): Promise<null>;
  /** Marks the run's task and returns the marks that were new. */
  mark(call: RunCall, labels: readonly Label[], why: string): Promise<Label[]>;
  cancelTask(id: string, reason: string, by: string): Promise<TaskRow>;
  assignTask(id: string, agent: string, by: string): Promise<TaskRow>;
  updateTask(id: string, change: TaskEdit, by: string): Promise<TaskRow>;
  /** Ends due waits and tasks, and returns live runs whose lease has expired. */
  processDue(): Promise<RunRow[]>;
  setHalt(reason: string, by: string): Promise<number>;
  liftHalt(by: string): Promise<void>;
  recordRuntimeEvent(
    event: 'runtime.started' | 'runtime.stopped' | 'policy.loaded' | 'policy.refused',
    data: Record<string, string | number>,
  ): Promise<void>;
  /** Returns how many task trees were open; undefined if it was recorded before. */
  recordRestore(restore: RestoreRecord): Promise<number | undefined>;
  /** Returns the event's number. */
  recordBackup(event: BackupEvent): Promise<number>;
  close(): Promise<void>;
};

export type BackupEvent = Pick<EventDraft, 'principal' | 'status' | 'data'> & {
  event: 'backup.started' | 'backup.ended';
};

export type ApprovalEnded = {
  approvalId: string;
  run_id: string;
  call_id: string;
  outcome: 'answered' | 'expired';
  decision: string;
  by: string;
};

export type MailEnded = {
  mailId: string;
  run_id: string;
  call_id: string;
  outcome: ExternalMailOutcome;
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
