// The runs that may call: what agentd admitted, under which fence, with which grant, and their
// sockets. The highest fence of a run is durable; what a run did is read from the journal when it
// is needed.
import type { RunSockets } from '../../platform/daemon.ts';
import type { Log } from '../../platform/log.ts';
import { makeTurns } from '../../platform/turns.ts';
import type { RunCaller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { AdmitRunBody } from '../../wire/toold.ts';
import type { Label, RunId, TaskId } from '../../wire/words.ts';
import { newProgress, noteAsked, noteOutcome, type Progress } from './rules.ts';
import type { PastCall, Store } from './store.ts';

export type Run = {
  runId: RunId;
  fence: number;
  mode: 'live' | 'replay';
  agent: string;
  taskId: TaskId;
  rootTaskId: TaskId;
  tools: ReadonlySet<string>;
  grantExpiresMs: number | null;
  callsMax: number;
  /** A directory of this host; null: one of its tree's own. */
  workspace: string | null;
  /** What it is marked with, as far as known here; agentd has the truth. */
  labels: Set<Label>;
  socket: string;
  /**
   * Calls in hand, and what its calls so far amount to; both live on when the run is admitted anew.
   */
  inFlight: Set<AbortController>;
  history: { progress: Promise<Progress> | undefined };
};

export type Runs = {
  admit(runId: RunId, body: AdmitRunBody): Promise<string>;
  /** False when a newer activation holds the run, or there was none. */
  dismiss(runId: RunId, fence: number): Promise<boolean>;
  /** The run of this caller, or a fault when its activation is over. */
  current(caller: RunCaller): Run;
  /** The live activation of this run, or a fault when there is none. */
  held(runId: RunId): Run;
  find(runId: RunId): Run | undefined;
  progressOf(run: Run): Promise<Progress>;
  /** After a restart: sockets of the runs that were live, so that their runners find us again. */
  reopen(): Promise<void>;
};

export const keyOf = (tool: string, argumentsHash: string): string => `${tool} ${argumentsHash}`;

export function makeRuns(options: {
  store: Store;
  sockets: RunSockets;
  nowMs: () => number;
  /** An activation is over: what was held for it can go. */
  onGone: (run: Run) => void;
  log: Log;
}): Runs {
  const { store, sockets, nowMs, log } = options;
  const live = new Map<string, Run>();
  const replays = new Map<string, Run>();

  /**
   * Opening and closing the socket of one run never overlap: the later would remove the earlier's
   * file.
   */
  const inTurn = makeTurns();

  const place = async (runId: RunId, body: AdmitRunBody): Promise<string> => {
    const here = body.mode === 'live' ? live : replays;
    const before = here.get(runId);
    const run = runOf(runId, body, before);
    // Before the new socket is there: from now on the old activation is refused.
    here.set(runId, run);
    if (before?.fence !== body.fence || before.socket === '')
      run.socket = await sockets.open(callerOf(run));
    return run.socket;
  };

  const notClosed = (runId: RunId) => (error: unknown) =>
    log.warn('the socket of a run could not be closed', { run: runId, error });
  const closeSocket = ({ runId, fence, mode }: Run): void => {
    const here = mode === 'live' ? live : replays;
    // Nobody waits for this: a call in hand may be what the dismissal itself came from.
    void inTurn(runId, async () => {
      if (!here.has(runId)) await sockets.close(runId, fence, mode);
    }).catch(notClosed(runId));
  };

  return {
    admit: (runId, body) =>
      inTurn(runId, async () => {
        if (body.mode === 'live') await store.admitRun(runId, body, nowMs());
        return place(runId, body);
      }),

    dismiss: (runId, fence) =>
      inTurn(runId, async () => {
        let dismissed = false;
        for (const here of [live, replays]) {
          const run = here.get(runId);
          if (run === undefined || run.fence > fence) continue;
          here.delete(runId);
          dismissed = true;
          for (const controller of run.inFlight) controller.abort();
          closeSocket(run);
          options.onGone(run);
        }
        // One that was not held here any more may have left its directory.
        if (!dismissed) void sockets.close(runId, fence).catch(notClosed(runId));
        return (await store.dismissRun(runId, fence)) || dismissed;
      }),

    current(caller) {
      const run = (caller.mode === 'live' ? live : replays).get(caller.runId);
      if (run !== undefined && run.fence === caller.fence) return run;
      const now = run === undefined ? 'it was dismissed' : `${run.fence} holds it now`;
      throw fault('stale_fence', `activation ${caller.fence} of ${caller.runId} is over: ${now}`);
    },

    held(runId) {
      const run = live.get(runId);
      if (run === undefined) throw fault('stale_fence', `${runId} was dismissed`);
      return run;
    },

    find: (runId) => live.get(runId),

    progressOf(run) {
      const { history } = run;
      if (history.progress === undefined) {
        history.progress = store.pastCalls(run.runId).then(progressFrom);
        history.progress.catch(() => {
          history.progress = undefined;
        });
      }
      return history.progress;
    },

    async reopen() {
      for (const { runId, admission } of await store.liveRuns()) {
        await inTurn(runId, async () => {
          if (!live.has(runId)) await place(runId, admission);
        });
      }
    },
  };
}

function runOf(runId: RunId, body: AdmitRunBody, before: Run | undefined): Run {
  return {
    runId,
    fence: body.fence,
    mode: body.mode,
    agent: body.agent,
    taskId: body.task_id,
    rootTaskId: body.root_task_id,
    tools: new Set(body.tools),
    grantExpiresMs: body.grant_expires_at === null ? null : Date.parse(body.grant_expires_at),
    callsMax: body.max_calls,
    // Admissions of an earlier version have none.
    workspace: body.workspace ?? null,
    labels: new Set([...body.labels, ...(before?.labels ?? [])]),
    socket: before?.fence === body.fence ? before.socket : '',
    inFlight: before?.inFlight ?? new Set(),
    history: before?.history ?? { progress: undefined },
  };
}

function callerOf(run: Run): RunCaller {
  return {
    kind: 'run',
    principal: `agent:${run.agent}`,
    runId: run.runId,
    fence: run.fence,
    mode: run.mode,
    agent: run.agent,
    taskId: run.taskId,
  };
}

function progressFrom(calls: PastCall[]): Progress {
  const progress = newProgress();
  for (const call of calls) {
    const key = keyOf(call.tool, call.arguments_hash);
    noteAsked(progress, { callId: call.call_id, key });
    if (call.outcome_hash !== null) noteOutcome(progress, key, call.outcome_hash);
  }
  return progress;
}
