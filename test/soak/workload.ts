// Keeps a number of tasks in progress and records when each ended. Every request is repeated until
// it is answered, under an idempotency key, because the runtime may be down at any moment.
import { setTimeout as sleep } from 'node:timers/promises';
import type { TaskView } from '../../src/wire/agentd.ts';
import { Fault, type FaultCode } from '../../src/wire/errors.ts';
import type { Clients } from '../support/runtime.ts';
import type { Seeded } from '../support/seeded.ts';
import { KIND_NAMES, KINDS, type KindName } from './task-kinds.ts';

const POLL_MS = 100;
const RETRY_MS = 100;
const CANCEL_MS_MAX = 1_500;

export type SoakTask = {
  key: string;
  kind: KindName;
  /** The task, and its retry. */
  ended: Pick<TaskView, 'id' | 'status' | 'created_at' | 'ended_at' | 'error'>[];
};

export type Workload = {
  /** Tasks that have ended. */
  done: SoakTask[];
  /** Keys of tasks that have not. */
  open(): string[];
  /** Creates no more tasks. */
  stop(): void;
  /** Resolves when every task has ended. */
  finished: Promise<void>;
};

export type WorkloadOptions = {
  clients: Clients;
  inFlight: number;
  random: Seeded;
  /** Called with each answer, so that outages are seen. */
  onRequest(isUp: boolean): void;
  signal: AbortSignal;
};

export function startWorkload(options: WorkloadOptions): Workload {
  const { clients, inFlight, random, onRequest, signal } = options;
  const deck = KIND_NAMES.flatMap((name) => Array<KindName>(KINDS[name].weight).fill(name));
  const done: SoakTask[] = [];
  const open = new Set<string>();
  let made = 0;
  let isStopped = false;

  /** Repeats a request while the runtime is down. Other faults are findings. */
  const insist = async <T>(request: (clients: Clients) => Promise<T>): Promise<T> => {
    for (;;) {
      signal.throwIfAborted();
      try {
        const result = await request(clients);
        onRequest(true);
        return result;
      } catch (error) {
        if (!isOutage(error)) throw error;
        onRequest(false);
        await sleep(RETRY_MS);
      }
    }
  };
  const waitForEnd = async (id: TaskView['id']): Promise<TaskView> => {
    for (;;) {
      const { task } = await insist(({ agentd }) => agentd.getTask({ params: { id } }));
      if (task.ended_at !== null) return task;
      await sleep(POLL_MS);
    }
  };
  const cancelLater = async (id: TaskView['id']): Promise<void> => {
    await sleep(random.int(CANCEL_MS_MAX));
    const request = { params: { id }, body: { reason: 'the soak cancels it' } };
    await insist(({ agentd }) => agentd.cancelTask(request)).catch(ignoreConflict);
  };

  const runOne = async (key: string, kind: KindName): Promise<SoakTask> => {
    const { agent, goal } = KINDS[kind];
    const body = { goal: goal(key), agent };
    const create = ({ agentd }: Clients) => agentd.createTask({ body }, { idempotencyKey: key });
    const { task } = await insist(create);
    if (kind === 'cancel') await cancelLater(task.id);
    const ended = [await waitForEnd(task.id)];
    if (kind === 'retry') {
      const params = { id: task.id };
      const retry = await insist(({ agentd }) =>
        agentd.retryTask({ params }, { idempotencyKey: `${key}-retry` }),
      );
      ended.push(await waitForEnd(retry.task.id));
    }
    return { key, kind, ended };
  };

  const worker = async (): Promise<void> => {
    while (!isStopped) {
      const key = `k${made++}`;
      open.add(key);
      done.push(await runOne(key, random.pick(deck)));
      open.delete(key);
    }
  };
  const finished = Promise.all(Array.from({ length: inFlight }, worker)).then(() => undefined);
  return {
    done,
    open: () => [...open],
    stop: () => {
      isStopped = true;
    },
    finished,
  };
}

/** True for what a runtime answers while it starts, stops, or is down. */
export function isOutage(error: unknown): boolean {
  const codes: FaultCode[] = ['unavailable', 'stopping', 'audit_unavailable', 'deadline'];
  return error instanceof Fault && codes.includes(error.code);
}

/** The task, approval or wait has ended meanwhile. */
export function ignoreConflict(error: unknown): undefined {
  if (error instanceof Fault && ['conflict', 'ended'].includes(error.code)) return undefined;
  throw error;
}
