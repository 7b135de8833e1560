// One requested model call: its caller, model, routes and context. generate.ts, client-calls.ts and
// embed.ts make it; calls.ts runs it.
import type { PolicyDecision } from '../../../policy/request.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { ModelRoute, ResolvedModel } from '../rules/models.ts';
import type { ProviderFetches } from '../rules/provider-fetches.ts';
import type { Intent } from '../store/entries.ts';
import type { CallContext } from './context.ts';
import type { ModelInput } from './ports.ts';
import type { CallerIdentity } from './runs.ts';

/** Policy's decision on an allowed call. */
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
  /** For a vendor's body: what it would make the provider fetch. */
  fetches?: ProviderFetches;
  /** The caller's own limit. */
  inputTokensMax: number | undefined;
  /** Aborted when the caller disconnects, the run is dismissed or the daemon stops. */
  controller: AbortController;
  deadlineMs: number;
  /** The outcome must be durable before the caller gets the response: a replay depends on it. */
  isReplayed: boolean;
  /** Absent where the caller is not a run. */
  decision?: ModelUseDecision;
};

export function makeAbortFault(signal: AbortSignal): Fault {
  const reason: unknown = signal.reason;
  return reason instanceof Fault ? reason : fault('canceled', 'the caller disconnected');
}
