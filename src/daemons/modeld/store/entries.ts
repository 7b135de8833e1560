// Types of the journal's entries: the intent before a model call, the outcome after it, and entries
// that join their transactions.
import type { FaultBody } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { DialectName, ModelCallView, StopReason, Usage } from '../../../wire/modeld.ts';
import type { SpentAmount } from '../budgets.ts';
import type { Amount } from '../rules/budget.ts';
import type { ContextPart } from './parts.ts';

export type Intent = {
  callId: string;
  attempt: number;
  runId: string | null;
  fence: number | null;
  principal: string;
  agent: string;
  taskId: string | null;
  rootTaskId: string | null;
  via: 'neutral' | DialectName | 'count' | 'embed';
  model: string;
  provider: string;
  upstreamModel: string;
  rehearsal: boolean;
  purpose: string;
  requestHash: string;
  /** Hashes of the messages in order, hex without spaces. */
  context: string;
  /** Hash of the part with the rest of the request. */
  params: string;
  reserved: Amount;
  createdMs: number;
  parts: ContextPart[];
  event: EventDraft;
};

export type CallOutcome = {
  seq: number;
  callId: string;
  principal: string;
  agent: string;
  createdMs: number;
  status: Exclude<ModelCallView['status'], 'running'>;
  provider: string;
  upstreamModel: string;
  stopReason: StopReason | null;
  /** Null when the provider did not report it. */
  usage: Usage | null;
  /** The amount charged to the budgets: the usage, or the bound where it is unknown. */
  charged: Amount;
  response: ContextPart | null;
  error: FaultBody | null;
  tries: number;
  endedMs: number;
  spent: SpentAmount[];
  event: EventDraft;
};

export type Work =
  | { kind: 'intent'; seq: number; intent: Intent }
  | { kind: 'outcome'; outcome: CallOutcome }
  | { kind: 'raise'; seq: number; reserved: Amount }
  /** Writes nothing, but is committed after all earlier entries. */
  | { kind: 'flush' };
