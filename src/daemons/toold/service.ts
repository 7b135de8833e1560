// Answers a call from its record when there is one, else performs it once, however often and from
// however many activations of the run it is requested. attempts/ performs it.
import { checkValue } from '../../platform/check.ts';
import { isFault } from '../../platform/daemon.ts';
import { canonicalJson, sha256Hex } from '../../platform/json.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { assertCallOfRun } from '../../wire/call-id.ts';
import type { RunCaller } from '../../wire/caller.ts';
import { FORGOTTEN } from '../../wire/copies.ts';
import { fault } from '../../wire/errors.ts';
import type { CallId, RunId } from '../../wire/primitives.ts';
import type { CallAnswer, CallRequest, ToolView } from '../../wire/toold.ts';
import type { Attempts } from './attempts/attempts.ts';
import type { Job } from './attempts/job.ts';
import type { Containment } from './permission/containment.ts';
import { formatIssues } from './permission/permission.ts';
import { buildCallKey, type ToolRun, type ToolRuns } from './runs.ts';
import type { ToolCallRow, TooldStore } from './store/store.ts';
import type { Registry } from './tools/registry.ts';

export type TooldService = {
  call(caller: RunCaller, request: CallRequest): Promise<CallAnswer>;
  listTools(caller: RunCaller | undefined): ToolView[];
  /** Returns why the tool would reject these arguments, or undefined. */
  findArgumentProblem(tool: string, args: Record<string, unknown>): string | undefined;
  /** Resolves when no call is in flight (true) or the time is over (false). */
  waitUntilIdle(waitMs: number): Promise<boolean>;
  abortAll(): void;
};

type InFlightToolCall = {
  fence: number;
  callId: CallId;
  runId: RunId;
  tool: string;
  argumentsText: string;
  argumentsHash: string;
  controller: AbortController;
  answer: Promise<CallAnswer>;
};
type IncomingCall = { caller: RunCaller; request: CallRequest; text: string; hash: string };

export function makeService(options: {
  store: TooldStore;
  runs: ToolRuns;
  registry: Registry;
  attempts: Attempts;
  metrics: Metrics;
  inFlightPerRunMax: number;
  suspensionsOf: Containment['findSuspensions'];
}): TooldService {
  const { store, runs, registry, attempts, metrics } = options;
  const flights = new Map<string, InFlightToolCall>();
  metrics.gauge('tool_calls_in_flight', () => flights.size);

  const proceed = async (job: Job): Promise<CallAnswer> => {
    const record = await store.findCall(job.callId);
    if (record === undefined) return attempts.first(job);
    assertSameCall(job, record);
    switch (record.status) {
      case 'completed':
      case 'failed':
      case 'canceled':
      case 'denied':
        return buildAnswer(record);
      case 'waiting':
        return attempts.afterWait(job, record);
      case 'unknown':
        return attempts.afterUnknown(job, record);
      case 'running':
        // Not in flight here, so the process that ran it is gone.
        return attempts.afterLoss(job, record);
      case 'requested':
      case 'allowed':
        return attempts.again(job, record);
    }
  };

  const launch = (run: ToolRun, asking: IncomingCall): Promise<CallAnswer> => {
    const { request, text, hash } = asking;
    if (run.inFlight.size >= options.inFlightPerRunMax) {
      const message = `${run.runId} has ${run.inFlight.size} calls in flight`;
      throw fault('overloaded', message, { retryAfterMs: 250 });
    }
    const controller = new AbortController();
    const flight: InFlightToolCall = {
      fence: run.fence,
      callId: request.call_id,
      runId: run.runId,
      tool: request.tool,
      argumentsText: text,
      argumentsHash: hash,
      controller,
      answer: proceed({
        run,
        callId: request.call_id,
        toolName: request.tool,
        tool: registry.get(request.tool),
        request,
        argumentsText: text,
        argumentsHash: hash,
        key: buildCallKey(request.tool, hash),
        signal: controller.signal,
      }).finally(() => {
        flights.delete(request.call_id);
        run.inFlight.delete(controller);
      }),
    };
    flights.set(request.call_id, flight);
    run.inFlight.add(controller);
    return flight.answer;
  };

  const callLive = async (asking: IncomingCall): Promise<CallAnswer> => {
    const { caller, request, text, hash } = asking;
    for (;;) {
      const run = runs.current(caller);
      const flight = flights.get(request.call_id);
      if (flight === undefined) return launch(run, asking);
      const own = {
        callId: request.call_id,
        run,
        toolName: request.tool,
        argumentsText: text,
        argumentsHash: hash,
      };
      assertSameCall(own, {
        call_id: flight.callId,
        run_id: flight.runId,
        tool: flight.tool,
        arguments: flight.argumentsText,
        arguments_hash: flight.argumentsHash,
      });
      try {
        return await flight.answer;
      } catch (error) {
        // It was canceled with the older activation that began it; this one may still do it.
        const wasOld = isFault(error, 'stale_fence') || isFault(error, 'canceled');
        if (!(wasOld && flight.fence < caller.fence)) throw error;
      }
    }
  };

  /** Answers from the record alone and writes nothing. */
  const callReplay = async ({ caller, request, text, hash }: IncomingCall): Promise<CallAnswer> => {
    runs.current(caller);
    const record = await store.findCall(request.call_id);
    const differs = (what: string, details?: { record_ends: true }) =>
      fault('replay_differs', `${request.call_id} (${request.tool}) ${what}`, { details });
    if (record === undefined || record.run_id !== caller.runId)
      throw differs('is not recorded for this run', { record_ends: true });
    if (record.tool !== request.tool) throw differs(`was ${record.tool} in the record`);
    if (!areSameArguments({ argumentsText: text, argumentsHash: hash }, record))
      throw differs('had other arguments in the record');
    if (record.ended_ms === null && record.wait_id === null)
      throw differs(`has no outcome in the record (${record.status})`, { record_ends: true });
    return buildAnswer(record);
  };

  return {
    async call(caller, request) {
      assertCallOfRun(caller.runId, request.call_id);
      const text = canonicalJson(request.arguments);
      const asking = { caller, request, text, hash: sha256Hex(text) };
      const answer = await (caller.mode === 'replay' ? callReplay(asking) : callLive(asking));
      const tool = registry.get(request.tool) === undefined ? 'unknown' : request.tool;
      metrics.count('tool_calls', { tool, status: answer.status });
      return answer;
    },
    listTools(caller) {
      const run = caller === undefined ? undefined : runs.current(caller);
      const views = registry.list().map(
        ({ view }): ToolView => ({
          ...view,
          ...options.suspensionsOf(view.name, run?.rootTaskId),
        }),
      );
      return run === undefined ? views : views.filter((view) => run.tools.has(view.name));
    },
    findArgumentProblem(name, args) {
      const parsed = checkValue(registry.get(name)!.input, args);
      return parsed.success ? undefined : formatIssues(parsed.issues);
    },
    async waitUntilIdle(waitMs) {
      const all = Promise.allSettled([...flights.values()].map((flight) => flight.answer));
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, waitMs);
      });
      await Promise.race([all, late]);
      clearTimeout(timer);
      return flights.size === 0;
    },
    abortAll() {
      for (const { controller } of flights.values()) controller.abort();
    },
  };
}

type CallIdentity = {
  callId: string;
  run: ToolRun;
  toolName: string;
  argumentsText: string;
  argumentsHash: string;
};
type KnownArguments = { arguments: string; arguments_hash: string };

/** Where a text was forgotten on one side, the other may still have it. */
const areSameArguments = (
  asked: Pick<CallIdentity, 'argumentsText' | 'argumentsHash'>,
  known: KnownArguments,
): boolean =>
  known.arguments_hash === asked.argumentsHash ||
  known.arguments.includes(FORGOTTEN) ||
  asked.argumentsText.includes(FORGOTTEN);

/** Throws unless both are the same call: an id never names another one. */
function assertSameCall(
  asked: CallIdentity,
  known: Pick<ToolCallRow, 'call_id' | 'run_id' | 'tool'> & KnownArguments,
): void {
  if (known.run_id !== asked.run.runId) throw new Error(`${known.call_id} belongs to two runs`);
  if (known.tool !== asked.toolName)
    throw fault('replay_differs', `${known.call_id} was ${known.tool}, now ${asked.toolName}`);
  if (!areSameArguments(asked, known))
    throw fault('replay_differs', `${known.call_id} (${known.tool}) had other arguments`);
}

export function buildAnswer(record: ToolCallRow): CallAnswer {
  const open = record.ended_ms === null && record.wait_id !== null && record.wait_kind !== null;
  return {
    call_id: record.call_id,
    status: open ? 'waiting' : record.status,
    ...(record.result === null
      ? {}
      : { result: JSON.parse(record.result) as Record<string, unknown> }),
    ...(record.error === null ? {} : { error: JSON.parse(record.error) as CallAnswer['error'] }),
    ...(open ? { wait: { id: record.wait_id!, kind: record.wait_kind! } } : {}),
    recorded: true,
  };
}
