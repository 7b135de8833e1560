// A neutral model call: answered from the record when it was made before, attached to when it is
// under way, made otherwise.
import type { NewId } from '../../../platform/ids.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { assertCallOf } from '../../../wire/call-id.ts';
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
import { askRecord } from '../rules/record.ts';
import { attemptsOf, type ModelCallRow, readAttempt, usageOf } from '../store/calls.ts';
import type { Journal } from '../store/journal.ts';
import { readPart } from '../store/parts.ts';
import type { CallResponse, ModelCalls } from './calls.ts';
import { type CallContext, messagePart, neutralContext } from './context.ts';
import type { Order } from './order.ts';
import type { AnswerEvent, ModelResult, ReadArtifact } from './ports.ts';
import type { Providers } from './providers.ts';
import { type CallerIdentity, identify, type ModelRuns } from './runs.ts';

export type GenerateParts = {
  calls: ModelCalls;
  runs: ModelRuns;
  providers: Providers;
  db: Database;
  journal: Journal;
  readArtifact: ReadArtifact;
  newId: NewId;
};

/** `controller`: says that the caller does not wait any more; others may end the call by it too. */
export type CallDeadline = { controller: AbortController; deadlineMs: number };
export type Generated =
  | { response: GenerateResponse }
  | { events: AsyncGenerator<GenerateEvent, void>; done: Promise<GenerateResponse> };

/** A call under way that has a name: who asks for it again waits for the same answer. */
type InFlight = {
  requestHash: string;
  runId: string | null;
  fence: number | null;
  waiting: number;
  controller: AbortController;
  response: Promise<GenerateResponse>;
};

type GenerateCall = {
  who: CallerIdentity;
  request: GenerateRequest;
  callId: CallId;
  context: CallContext;
} & CallDeadline;

export class Generate {
  readonly #parts: GenerateParts;
  readonly #inFlight = new Map<string, InFlight>();

  constructor(parts: GenerateParts) {
    this.#parts = parts;
  }

  async generate(
    caller: Caller,
    request: GenerateRequest,
    patience: CallDeadline,
  ): Promise<Generated> {
    const who = identify(this.#parts.runs, caller, {
      agent: request.agent,
      taskId: request.task_id,
    });
    if (request.messages === undefined && request.input_ref === undefined)
      throw fault('bad_request', 'the request has neither messages nor input_ref');
    if (who.runId !== null && request.call_id !== undefined)
      assertCallOf(who.runId, request.call_id);
    const context = neutralContext(request, who.principal);
    const callId = request.call_id ?? this.#parts.newId<CallId>('call');
    const asked: GenerateCall = { who, request, callId, context, ...patience };
    if (who.mode === 'replay') return give(await this.#fromRecord(asked), request);
    if (request.call_id === undefined) return this.#make(asked, 1);
    return this.#named(asked);
  }

  /**
   * Answers of calls with a name are made once, however often and at the same time they are asked.
   */
  async #named(asked: GenerateCall): Promise<Generated> {
    const found = this.#inFlight.get(asked.callId);
    if (found !== undefined && found.fence !== asked.who.fence) {
      // Of an activation that is over: what is left of it must end first, whichever way.
      await found.response.catch(() => undefined);
      return this.#named(asked);
    }
    if (found !== undefined) return give(await this.#attach(found, asked), asked.request);
    const { promise, resolve, reject } = Promise.withResolvers<GenerateResponse>();
    promise.catch(() => undefined);
    const entry: InFlight = {
      requestHash: asked.context.requestHash,
      runId: asked.who.runId,
      fence: asked.who.fence,
      waiting: 0,
      controller: new AbortController(),
      response: promise,
    };
    this.#inFlight.set(asked.callId, entry);
    const forget = () => this.#inFlight.delete(asked.callId);
    promise.then(forget, forget);
    this.#wait(entry, asked.controller.signal);
    try {
      const generated = await this.#askNamed({ ...asked, controller: entry.controller });
      if ('response' in generated) resolve(generated.response);
      else generated.done.then(resolve, reject);
      return generated;
    } catch (error) {
      reject(error);
      throw error;
    }
  }

  async #askNamed(asked: GenerateCall): Promise<Generated> {
    const { db, journal } = this.#parts;
    const { callId, context, request } = asked;
    // Ended, but not written yet because the disk was full: try that first.
    if (journal.awaits(callId)) await journal.flush();
    const attempts = await db.read((sql) => attemptsOf(sql, callId));
    const recorded = askRecord(attempts, { requestHash: context.requestHash, mode: 'live' });
    if (recorded.answer === 'none') return this.#make(asked, attempts.length + 1);
    if (recorded.answer === 'differs') throw differs(callId, recorded.reason);
    return give(await this.#answerOf(asked, recorded.attempt), request);
  }

  async #attach(entry: InFlight, asked: GenerateCall): Promise<GenerateResponse> {
    if (entry.requestHash !== asked.context.requestHash || entry.runId !== asked.who.runId)
      throw differs(asked.callId, 'a call with this id and another request is under way');
    this.#wait(entry, asked.controller.signal);
    return { ...(await entry.response), recorded: true };
  }

  /** The provider is only left when nobody waits for its answer any more. */
  #wait(entry: InFlight, signal: AbortSignal): void {
    entry.waiting++;
    const leave = (): void => {
      entry.waiting--;
      if (entry.waiting === 0) entry.controller.abort(signal.reason);
    };
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    const done = () => signal.removeEventListener('abort', leave);
    entry.response.then(done, done);
  }

  async #fromRecord(asked: GenerateCall): Promise<GenerateResponse> {
    const { callId, context } = asked;
    const attempts = await this.#parts.db.read((sql) => attemptsOf(sql, callId));
    const recorded = askRecord(attempts, { requestHash: context.requestHash, mode: 'replay' });
    if (recorded.answer === 'none') throw differs(callId, 'it is not recorded');
    if (recorded.answer === 'differs') throw differs(callId, recorded.reason, recorded.ends);
    return this.#answerOf(asked, recorded.attempt);
  }

  async #answerOf({ callId, who }: GenerateCall, attempt: number): Promise<GenerateResponse> {
    const { row, body } = await this.#parts.db.read(async (sql) => {
      const row = (await readAttempt(sql, callId, attempt))!;
      const part = row.response === null ? undefined : await readPart(sql, row.response);
      return { row, body: part?.body ?? null };
    });
    if (row.run_id !== who.runId) throw differs(callId, 'it is a call of somebody else');
    if (row.error !== null) throw faultFromBody({ error: JSON.parse(row.error) });
    if (body === null) throw differs(callId, 'the recorded answer was forgotten');
    return recordedResponse(row, JSON.parse(body) as Message);
  }

  async #make(asked: GenerateCall, attempt: number): Promise<Generated> {
    const { providers, calls } = this.#parts;
    const { who, request, callId, controller, deadlineMs } = asked;
    const { model, routes } = providers.resolve(request.model, 'chat');
    const { messages, context } = await this.#withArtifact(asked);
    const order: Order = {
      who,
      via: 'neutral',
      callId,
      attempt,
      model,
      routes,
      purpose: request.purpose ?? '',
      context,
      ask: { form: 'neutral', request, messages },
      inputTokensMax: request.limits?.max_input_tokens,
      controller,
      deadlineMs,
      isReplayed: request.call_id !== undefined,
    };
    const answered = await calls.perform(order);
    const done = answered.finished.then((finished) => responseOf(callId, answered, finished));
    if (answered.output.type !== 'events') return { response: await done };
    done.catch(() => undefined);
    return { events: eventsOf(answered.output.items, done), done };
  }

  /**
   * The text an `input_ref` points to becomes the last message, with the labels it was stored with.
   */
  async #withArtifact(asked: GenerateCall): Promise<{ messages: Message[]; context: CallContext }> {
    const { request, context, who } = asked;
    const messages = request.messages ?? [];
    if (request.input_ref === undefined) return { messages, context };
    const id = request.input_ref.slice('artifact://'.length);
    const { text, labels } = await this.#parts.readArtifact(id, who.runId);
    const message: Message = { role: 'user', parts: [{ type: 'text', text }], labels };
    const part = messagePart(message, request.input_ref);
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

function differs(callId: string, reason: string, ends?: true): Fault {
  const details = { call_id: callId, reason, ...(ends === undefined ? {} : { record_ends: true }) };
  return fault('replay_differs', `${callId}: ${reason}`, { details });
}

function responseOf(
  callId: CallId,
  { route }: CallResponse,
  { ended, costMicrousd }: { ended: ModelResult; costMicrousd: number },
): GenerateResponse {
  const { message, stopReason, usage } = ended.answer;
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

function recordedResponse(row: ModelCallRow, message: Message): GenerateResponse {
  return {
    call_id: row.call_id as CallId,
    model: row.upstream_model,
    provider: row.provider,
    rehearsal: row.provider === REHEARSAL,
    message,
    stop_reason: row.stop_reason ?? 'other',
    usage: usageOf(row) ?? NO_USAGE,
    cost_microusd: row.cost,
    recorded: true,
  };
}

/** A recorded answer in the form that was asked for. */
function give(response: GenerateResponse, request: GenerateRequest): Generated {
  if (request.stream !== true) return { response };
  return { events: tell(response), done: Promise.resolve(response) };
}

async function* tell(response: GenerateResponse): AsyncGenerator<GenerateEvent, void> {
  for (const part of response.message.parts) {
    if (part.type === 'text' || part.type === 'thinking')
      yield { type: part.type, text: part.text };
    if (part.type === 'tool_call') yield { type: 'tool_call', id: part.id, name: part.name };
  }
  yield { type: 'done', response };
}

/** `done` comes when the outcome is settled, and durable where a replay depends on it. */
async function* eventsOf(
  items: AsyncIterable<AnswerEvent[]>,
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
