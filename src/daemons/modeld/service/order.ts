// One model call as it was asked for: who calls, which model by which routes, with which context.
// Made by the routes of each form of a call; carried out by calls.ts.
import type { PolicyDecision } from '../../../policy/request.ts';
import type { ModelRoute, Resolved } from '../rules/models.ts';
import type { Intent } from '../store/entries.ts';
import type { CallContext } from './context.ts';
import type { ModelInput } from './ports.ts';
import type { CallerIdentity } from './runs.ts';

/** What policy said of a call that may be made. */
export type Verdict = PolicyDecision & { labels: readonly string[] };

export type OpenRoute = ModelRoute & { labelsAllowed: number };

export type Order = {
  who: CallerIdentity;
  via: Intent['via'];
  callId: string;
  attempt: number;
  model: Resolved;
  routes: readonly OpenRoute[];
  purpose: string;
  context: CallContext;
  ask: ModelInput;
  /** The caller's own limit. */
  inputTokensMax: number | undefined;
  /** Aborted by the caller leaving, the run being dismissed and the daemon stopping. */
  controller: AbortController;
  deadlineMs: number;
  /** The outcome must be durable before the caller has the answer: a replay depends on it. */
  isReplayed: boolean;
  /** What policy said of it. None where no run asks. */
  verdict?: Verdict;
};
