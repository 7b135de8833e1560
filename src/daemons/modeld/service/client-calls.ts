// Makes calls for clients of a vendor's SDK: passed unchanged to a provider of the same dialect,
// translated for one of another. Journaled and charged like every other call.
import type { NewId } from '../../../platform/ids.ts';
import type { PolicySource } from '../../../policy/source.ts';
import type { Caller } from '../../../wire/caller.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { DialectName } from '../../../wire/modeld.ts';
import type { CallId } from '../../../wire/primitives.ts';
import { readEmbedRequest, writeEmbedResponse } from '../rules/client-embeddings.ts';
import { REHEARSAL } from '../rules/models.ts';
import { findProviderFetches } from '../rules/provider-fetches.ts';
import type { ModelCalls } from './calls.ts';
import { makeClientContext } from './context.ts';
import type { Embed } from './embed.ts';
import type { CallDeadline } from './generate.ts';
import type { ModelCall } from './model-call.ts';
import type { Upstream } from './ports.ts';
import { makeChooseModel } from './program-model.ts';
import type { Providers } from './providers.ts';
import { identify, type ModelRuns } from './runs.ts';

export type ClientResponse = {
  headers: Record<string, string>;
  body: Uint8Array | string | AsyncIterable<Uint8Array | string>;
};

export type ClientBody = {
  text: string;
  body: Record<string, unknown>;
  /** The caller's own headers that concern the provider. */
  headers: Readonly<Record<string, string>>;
  purpose?: string;
};

export function makeClientCalls(parts: {
  calls: ModelCalls;
  runs: ModelRuns;
  providers: Providers;
  upstream: Pick<Upstream, 'estimateInputTokens'>;
  embed: Embed;
  policy: Pick<PolicySource, 'decide'>;
  newId: NewId;
}) {
  const { calls, runs, providers, upstream, embed, newId } = parts;
  const chooseModel = makeChooseModel(parts);

  const makeCall = async (
    caller: Caller,
    dialect: DialectName,
    { body, purpose = '' }: ClientBody,
    patience: CallDeadline,
  ): Promise<Omit<ModelCall, 'via' | 'input'> & { callId: CallId }> => {
    const identity = identify(runs, caller);
    if (identity.mode === 'replay')
      throw fault('replay_differs', 'calls of a vendor SDK have no call_id and cannot be replayed');
    const { labels, principal: source } = identity;
    const context = makeClientContext({ dialect, body, source, labels });
    const name = await chooseModel(identity, context.model);
    const { model, routes } = providers.resolve(name, 'chat', identity.run?.model);
    const callId = newId<CallId>('call');
    return {
      identity,
      callId,
      attempt: 1,
      model,
      routes,
      purpose,
      context,
      fetches: findProviderFetches(body),
      inputTokensMax: undefined,
      ...patience,
      isReplayed: false,
    };
  };

  const perform = async (call: ModelCall): Promise<ClientResponse> => {
    const answered = await calls.perform(call);
    // A broken stream reports its fault to the client; the outcome is journaled separately.
    answered.finished.catch(() => undefined);
    const { output, route } = answered;
    if (output.type !== 'bytes' && output.type !== 'stream')
      throw new Error(`unexpected output of a client's call: ${output.type}`);
    const headers = {
      ...output.headers,
      'agentd-call-id': call.callId,
      'agentd-provider': route.provider,
      'agentd-model': route.model,
      ...(route.provider === REHEARSAL ? { 'agentd-rehearsal': 'true' } : {}),
    };
    return { headers, body: output.type === 'bytes' ? output.body : output.items };
  };

  return {
    async callAsClient(
      caller: Caller,
      dialect: DialectName,
      asked: ClientBody,
      patience: CallDeadline,
    ): Promise<ClientResponse> {
      const call = await makeCall(caller, dialect, asked, patience);
      const { callId } = call;
      const { text, body, headers } = asked;
      return perform({
        ...call,
        via: dialect,
        input: { form: 'client', dialect, text, body, headers, callId },
      });
    },

    /** Answers from the cache what was paid for before, whoever paid. */
    async embedAsClient(
      caller: Caller,
      body: Record<string, unknown>,
      patience: CallDeadline,
    ): Promise<ClientResponse> {
      const asked = readEmbedRequest(body);
      const { model, input, dimensions } = asked;
      const made = await embed(caller, { model, input, dimensions }, patience);
      const headers = {
        'content-type': 'application/json',
        'agentd-call-id': made.call_id,
        'agentd-provider': made.provider,
        'agentd-model': made.model,
        ...(made.recorded ? { 'agentd-recorded': 'true' } : {}),
        ...(made.rehearsal ? { 'agentd-rehearsal': 'true' } : {}),
      };
      return { headers, body: JSON.stringify(writeEmbedResponse(asked, made)) };
    },

    /** Asks the provider, where it can count; nothing is sent to one that cannot. */
    async countTokens(
      caller: Caller,
      asked: ClientBody,
      patience: CallDeadline,
    ): Promise<ClientResponse> {
      const call = await makeCall(caller, 'anthropic', asked, patience);
      const routes = call.routes.filter(
        ({ provider }) => providers.getDialect(provider) === 'anthropic',
      );
      const estimate = () => writeEstimate(upstream.estimateInputTokens(asked.body));
      if (routes.length === 0) return estimate();
      try {
        const { text, body, headers } = asked;
        const input = { form: 'count', text, body, headers } as const;
        return await perform({ ...call, routes, via: 'count', input });
      } catch (error) {
        if (error instanceof Fault && cannotCount(error)) return estimate();
        throw error;
      }
    },
  };
}

/** Servers that speak the dialect often have only its main route. */
function cannotCount({ code, details }: Fault): boolean {
  const status = details?.upstream_status;
  return code === 'provider_refused' && (status === 404 || status === 405);
}

function writeEstimate(tokens: number): ClientResponse {
  return {
    headers: { 'content-type': 'application/json', 'agentd-estimate': 'true' },
    body: JSON.stringify({ input_tokens: tokens }),
  };
}
