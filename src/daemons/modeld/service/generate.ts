// Makes neutral model calls. A repeated call_id is answered from the record, or joins the call in
// flight.
import type { NewId } from '../../../platform/ids.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { assertCallOfRun } from '../../../wire/call-id.ts';
import type { Caller } from '../../../wire/caller.ts';
import { Fault, fault, faultFromBody } from '../../../wire/errors.ts';
import type {
  GenerateEvent,
  GenerateRequest,
  GenerateResponse,
  Message,
} from '../../../wire/modeld.ts';
import type { CallId } from '../../../wire/primitives.ts';
import { NO_USAGE } from '../rules/budget.ts';
import { REHEARSAL } from '../rules/models.ts';
import { findRecorded } from '../rules/record.ts';
import { type ModelCallRow, readAttempt, readAttempts, readUsage } from '../store/calls.ts';
import type { Journal } from '../store/journal.ts';
import { readPart } from '../store/parts.ts';
import type { CallResponse, ModelCalls } from './calls.ts';
import { type CallContext, hasForgotten, makeMessagePart, makeNeutralContext } from './context.ts';
import type { ModelCall } from './model-call.ts';
import type { ModelResult, ReadArtifact, ResponseEvent } from './ports.ts';
import type { Providers } from './providers.ts';
import { type CallerIdentity, identify, type ModelRuns } from './runs.ts';

export type GenerateDeps = {
  calls: ModelCalls;
  runs: ModelRuns;
  providers: Providers;
  db: Database;
  journal: Journal;
  readArtifact: ReadArtifact;
  newId: NewId;
};

/** `controller` is aborted when the caller disconnects; others may abort the call with it too. */
export type CallDeadline = { controller: AbortController; deadlineMs: number };
export type GenerateResult =
  | { response: GenerateResponse }
  | { events: AsyncGenerator<GenerateEvent, void>; done: Promise<GenerateResponse> };

/** A call in flight with a call_id: repeated requests wait for the same response. */
type NamedCall = {
  requestHash: string;
  runId: string | null;
  fence: number | null;
  waiters: number;
  controller: AbortController;
  response: Promise<GenerateResponse>;
};

type GenerateCall = {
  identity: CallerIdentity;
  request: GenerateRequest;
  callId: CallId;
  context: CallContext;
} & CallDeadline;

export class Generate {
  readonly #deps: GenerateDeps;
  readonly #inFlight = new Map<string, NamedCall>();

  constructor(parts: GenerateDeps) {
    this.#deps = parts;
  }

  async generate(
    caller: Caller,
    request: GenerateRequest,
    patience: CallDeadline,
  ): Promise<GenerateResult> {
    const identity = identify(this.#deps.runs, caller, {
      agent: request.agent,
      taskId: request.task_id,
    });
    if (request.messages === undefined && request.input_ref === undefined)
      throw fault('bad_request', 'the request has neither messages nor input_ref');
    if (identity.runId !== null && request.call_id !== undefined)
      assertCallOfRun(identity.runId, request.call_id);
    const context = makeNeutralContext(request, identity.principal);
    const callId = request.call_id ?? this.#deps.newId<CallId>('call');
    const call: GenerateCall = { identity, request, callId, context, ...patience };
    if (identity.mode === 'replay') return toGenerated(await this.#replay(call), request);
    if (request.call_id === undefined) return this.#callModel(call, 1);
    return this.#generateNamed(call);
  }

  /** Calls the model once per call_id, however many requests for it come at the same time. */
  async #generateNamed(call: GenerateCall): Promise<GenerateResult> {
    const found = this.#inFlight.get(call.callId);
    if (found !== undefined && found.fence !== call.identity.fence) {
      // The call of an activation that has ended must end first.
      await found.response.catch(() => undefined);
      return this.#generateNamed(call);
    }
    if (found !== undefined) return toGenerated(await this.#attach(found, call), call.request);
    const { promise, resolve, reject } = Promise.withResolvers<GenerateResponse>();
    promise.catch(() => undefined);
    const entry: NamedCall = {
      requestHash: call.context.requestHash,
      runId: call.identity.runId,
      fence: call.identity.fence,
      waiters: 0,
      controller: new AbortController(),
      response: promise,
    };
    this.#inFlight.set(call.callId, entry);
    const forget = () => this.#inFlight.delete(call.callId);
    promise.then(forget, forget);
    this.#addWaiter(entry, call.controller.signal);
    try {
      const generated = await this.#findOrCall({ ...call, controller: entry.controller });
      if ('response' in generated) resolve(generated.response);
      else generated.done.then(resolve, reject);
      return generated;
    } catch (error) {
      reject(error);
      throw error;
    }
  }

  async #findOrCall(call: GenerateCall): Promise<GenerateResult> {
    const { db, journal } = this.#deps;
    const { callId, context, request } = call;
    // The call has ended but its outcome is not durable, perhaps because the disk was full.
    if (journal.isPending(callId)) await journal.flush();
    const attempts = await db.read((sql) => readAttempts(sql, callId));
    const recorded = findRecorded(attempts, toAsked(context, 'live'));
    if (recorded.result === 'none') return this.#callModel(call, attempts.length + 1);
    if (recorded.result === 'differs') throw replayDiffersFault(callId, recorded.reason);
    return toGenerated(await this.#readRecorded(call, recorded.attempt), request);
  }

  async #attach(entry: NamedCall, call: GenerateCall): Promise<GenerateResponse> {
    const { context } = call;
    const isSame = entry.requestHash === context.requestHash || hasForgotten(context);
    if (!isSame || entry.runId !== call.identity.runId)
      throw replayDiffersFault(call.callId, 'a call with this id and another request is running');
    this.#addWaiter(entry, call.controller.signal);
    return { ...(await entry.response), recorded: true };
  }

  /** The provider's call is aborted when the last waiter has disconnected. */
  #addWaiter(entry: NamedCall, signal: AbortSignal): void {
    entry.waiters++;
    const leave = (): void => {
      entry.waiters--;
      if (entry.waiters === 0) entry.controller.abort(signal.reason);
    };
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    const done = () => signal.removeEventListener('abort', leave);
    entry.response.then(done, done);
  }

  async #replay(call: GenerateCall): Promise<GenerateResponse> {
    const { callId, context } = call;
    const attempts = await this.#deps.db.read((sql) => readAttempts(sql, callId));
    const recorded = findRecorded(attempts, toAsked(context, 'replay'));
    if (recorded.result === 'none') throw replayDiffersFault(callId, 'it is not recorded');
    if (recorded.result === 'differs')
      throw replayDiffersFault(callId, recorded.reason, recorded.ends);
    return this.#readRecorded(call, recorded.attempt);
  }

  async #readRecorded(
    { callId, identity }: GenerateCall,
    attempt: number,
  ): Promise<GenerateResponse> {
    const { row, body } = await this.#deps.db.read(async (sql) => {
      const row = (await readAttempt(sql, callId, attempt))!;
      const part = row.response === null ? undefined : await readPart(sql, row.response);
      return { row, body: part?.body ?? null };
    });
    if (row.run_id !== identity.runId)
      throw replayDiffersFault(callId, 'it belongs to another run');
    if (row.error !== null) throw faultFromBody({ error: JSON.parse(row.error) });
    if (body === null) throw replayDiffersFault(callId, 'the recorded response was forgotten');
    return makeRecordedResponse(row, JSON.parse(body) as Message);
  }

  async #callModel(call: GenerateCall, attempt: number): Promise<GenerateResult> {
    const { providers, calls } = this.#deps;
    const { identity, request, callId, controller, deadlineMs } = call;
    const { model, routes } = providers.resolve(request.model, 'chat', identity.run?.model);
    const { messages, context } = await this.#withArtifact(call);
    const modelCall: ModelCall = {
      identity,
      via: 'neutral',
      callId,
      attempt,
      model,
      routes,
      purpose: request.purpose ?? '',
      context,
      input: { form: 'neutral', request, messages },
      inputTokensMax: request.limits?.max_input_tokens,
      controller,
      deadlineMs,
      isReplayed: request.call_id !== undefined,
    };
    const answered = await calls.perform(modelCall);
    const done = answered.finished.then((finished) => makeResponse(callId, answered, finished));
    if (answered.output.type !== 'events') return { response: await done };
    done.catch(() => undefined);
    return { events: writeEvents(answered.output.items, done), done };
  }

  /** Appends the text of an `input_ref` as the last message, with the labels it is stored with. */
  async #withArtifact(call: GenerateCall): Promise<{ messages: Message[]; context: CallContext }> {
    const { request, context, identity } = call;
    const messages = request.messages ?? [];
    if (request.input_ref === undefined) return { messages, context };
    const id = request.input_ref.slice('artifact://'.length);
    const { text, labels } = await this.#deps.readArtifact(id, identity.runId);
    const message: Message = { role: 'user', parts: [{ type: 'text', text }], labels };
    const part = makeMessagePart(message, request.input_ref);
    return {
      messages: [...messages, message],
      context: {
        ...context,
        messages: [...context.messages, part],
        labels: context.labels | part.labels,
      },
    };
  }
}

const toAsked = (context: CallContext, mode: 'live' | 'replay') => ({
  requestHash: context.requestHash,
  mode,
  hasForgotten: () => hasForgotten(context),
});

function replayDiffersFault(callId: string, reason: string, ends?: true): Fault {
  const details = { call_id: callId, reason, ...(ends === undefined ? {} : { record_ends: true }) };
  return fault('replay_differs', `${callId}: ${reason}`, { details });
}

function makeResponse(
  callId: CallId,
  { route }: CallResponse,
  { ended, costMicrousd }: { ended: ModelResult; costMicrousd: number },
): GenerateResponse {
  const { message, stopReason, usage } = ended.response;
  return {
    call_id: callId,
    model: route.model,
    provider: route.provider,
    rehearsal: route.provider === REHEARSAL,
    message,
    stop_reason: stopReason,
    usage,
    cost_microusd: costMicrousd,
    recorded: false,
  };
}

function makeRecordedResponse(row: ModelCallRow, message: Message): GenerateResponse {
  return {
    call_id: row.call_id as CallId,
    model: row.upstream_model,
    provider: row.provider,
    rehearsal: row.provider === REHEARSAL,
    message,
    stop_reason: row.stop_reason ?? 'other',
    usage: readUsage(row) ?? NO_USAGE,
    cost_microusd: row.cost,
    recorded: true,
  };
}

/** Returns a recorded response as a whole or as events, as requested. */
function toGenerated(response: GenerateResponse, request: GenerateRequest): GenerateResult {
  if (request.stream !== true) return { response };
  return { events: writeRecordedEvents(response), done: Promise.resolve(response) };
}

async function* writeRecordedEvents(
  response: GenerateResponse,
): AsyncGenerator<GenerateEvent, void> {
  for (const part of response.message.parts) {
    if (part.type === 'text' || part.type === 'thinking')
      yield { type: part.type, text: part.text };
    if (part.type === 'tool_call') yield { type: 'tool_call', id: part.id, name: part.name };
  }
  yield { type: 'done', response };
}

/** `done` is sent when the outcome is settled, and durable where a replay depends on it. */
async function* writeEvents(
  items: AsyncIterable<ResponseEvent[]>,
  done: Promise<GenerateResponse>,
): AsyncGenerator<GenerateEvent, void> {
  try {
    for await (const batch of items) {
      for (const event of batch) {
        if (event.type === 'text' || event.type === 'thinking' || event.type === 'tool_call')
          yield event;
      }
    }
    yield { type: 'done', response: await done };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    yield { type: 'error', error: error.toBody() };
  }
}
