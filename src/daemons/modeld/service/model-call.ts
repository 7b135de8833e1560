// One model call as it was asked for: who calls, which model by which routes, with which context.
// Made by the routes of each form of a call; carried out by calls.ts.
import type { PolicyDecision } from '../../../policy/request.ts';
import type { ModelRoute, ResolvedModel } from '../rules/models.ts';
import type { Intent } from '../store/entries.ts';
import type { CallContext } from './context.ts';
import type { ModelInput } from './ports.ts';
import type { CallerIdentity } from './runs.ts';

/** What policy said of a call that may be made. */
export type ModelUseDecision = PolicyDecision & { labels: readonly string[] };

export type LabeledRoute = ModelRoute & { labelsAllowed: number };

export type ModelCall = {
  identity: CallerIdentity;
  via: Intent['via'];
  callId: string;
  attempt: number;
  model: ResolvedModel;
  routes: readonly LabeledRoute[];
  purpose: string;
  context: CallContext;
  input: ModelInput;
  /** The caller's own limit. */
  inputTokensMax: number | undefined;
  /** Aborted by the caller leaving, the run being dismissed and the daemon stopping. */
  controller: AbortController;
  deadlineMs: number;
  /** The outcome must be durable before the caller has the answer: a replay depends on it. */
  isReplayed: boolean;
  /** What policy said of it. None where no run asks. */
  decision?: ModelUseDecision;
};
