// The entries of the journal: the intent before a model call, its outcome after it, and what else
// joins their transactions.
import type { FaultBody } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { ModelCallView, StopReason, Usage } from '../../../wire/modeld.ts';
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
  via: 'neutral' | 'openai' | 'anthropic' | 'embed';
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
  status: Exclude<ModelCallView['status'], 'running'>;
  provider: string;
  upstreamModel: string;
  stopReason: StopReason | null;
  /** Null when the provider did not say. */
  usage: Usage | null;
  /** What the budgets were charged: the usage, or the bound where nobody knows. */
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
  /** Writes nothing: its transaction comes after those of all entries before it. */
  | { kind: 'flush' };
