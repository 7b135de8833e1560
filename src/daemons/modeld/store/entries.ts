// What the journal writes: the intent before a call, its outcome after, and what a transaction is
// given of them.
import type { Told } from '../../../platform/outbox.ts';
import type { FaultBody } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { ModelCallView, StopReason, Usage } from '../../../wire/modeld.ts';
import type { Spent } from '../budgets.ts';
import type { Amount } from '../rules/budget.ts';
import type { Part } from './parts.ts';

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
  /**
   * The reservation takes what earlier calls left of theirs: their outcomes must not be lost
   * without it, or both would be charged in full.
   */
  needsOutcomes: boolean;
  createdMs: number;
  parts: Part[];
  event: EventDraft;
};

export type Outcome = {
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
  /** What the attempt's own reservation was more than that. */
  freed: Amount;
  response: Part | null;
  error: FaultBody | null;
  tries: number;
  endedMs: number;
  spent: Spent[];
  event: EventDraft;
  isTold?: boolean;
};

/** `isTold`, of outcomes too: the event is among those that the log was told of first. */
export type IntentWork = { kind: 'intent'; seq: number; intent: Intent; isTold?: boolean };
/** The events that the log was told of before the transaction they belong to. */
export type ToldWork = { kind: 'told'; told: Told };
export type Work =
  | ToldWork
  | IntentWork
  | { kind: 'outcome'; outcome: Outcome }
  | { kind: 'raise'; seq: number; reserved: Amount };
