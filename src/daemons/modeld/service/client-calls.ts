// Makes calls for clients of a vendor's SDK: passed unchanged to a provider of the same dialect,
// translated for one of another. Journaled and charged like every other call.
import type { NewId } from '../../../platform/ids.ts';
import type { Caller } from '../../../wire/caller.ts';
import { fault } from '../../../wire/errors.ts';
import type { CallId } from '../../../wire/primitives.ts';
import { REHEARSAL } from '../rules/models.ts';
import type { ModelCalls } from './calls.ts';
import { makeClientContext } from './context.ts';
import type { CallDeadline } from './generate.ts';
import type { DialectName } from './ports.ts';
import type { Providers } from './providers.ts';
import { identify, type ModelRuns } from './runs.ts';

export type ClientResponse = {
  headers: Record<string, string>;
  body: Uint8Array | string | AsyncIterable<Uint8Array | string>;
};

export type ClientBody = { text: string; body: Record<string, unknown> };

export function makeClientCalls(parts: {
  calls: ModelCalls;
  runs: ModelRuns;
  providers: Providers;
  newId: NewId;
}) {
  const { calls, runs, providers, newId } = parts;
  return async function callAsClient(
    caller: Caller,
    dialect: DialectName,
    { text, body }: ClientBody,
    patience: CallDeadline,
  ): Promise<ClientResponse> {
    const identity = identify(runs, caller);
    if (identity.mode === 'replay')
      throw fault('replay_differs', 'calls of a vendor SDK have no call_id and cannot be replayed');
    const { labels, principal: source } = identity;
    const context = makeClientContext({ body, source, labels });
    const { model, routes } = providers.resolve(context.model, 'chat');
    const callId = newId<CallId>('call');
    const answered = await calls.perform({
      identity,
      via: dialect,
      callId,
      attempt: 1,
      model,
      routes,
      purpose: '',
      context,
      input: { form: 'client', dialect, text, body, callId },
      inputTokensMax: undefined,
      ...patience,
      isReplayed: false,
    });
    // A broken stream reports its fault to the client; the outcome is journaled separately.
    answered.finished.catch(() => undefined);
    const { output, route } = answered;
    if (output.type !== 'bytes' && output.type !== 'stream')
      throw new Error(`unexpected output of a client's call: ${output.type}`);
    const headers = {
      ...output.headers,
      'agentd-call-id': callId,
      'agentd-provider': route.provider,
      ...(route.provider === REHEARSAL ? { 'agentd-rehearsal': 'true' } : {}),
    };
    return { headers, body: output.type === 'bytes' ? output.body : output.items };
  };
}
