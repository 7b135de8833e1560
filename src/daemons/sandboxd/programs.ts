// Programs of people in the boxes of their runs. A program starts when its client attaches with
// its token, and ends with it; agentd learns of the end as of a runner's.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { constants } from 'node:os';
import { UpgradeReply } from '../../platform/dispatch.ts';
import type { Log } from '../../platform/log.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { BoxId, RunId } from '../../wire/primitives.ts';
import type { FurtherCommand, ProgramCommand } from '../../wire/sandboxd/programs.ts';
import type { RunnerEnd } from '../../wire/sandboxd.ts';
import type { CommandExit, OnStopped, SandboxCommand } from './adapters/warden.ts';
import type { BoxTable } from './boxes.ts';
import { connectClient } from './program-connection.ts';
import type { RunEnds } from './run-ends.ts';
import { type RunnerKey, toRunnerEnd } from './runners.ts';
import type { SandboxdStore } from './store.ts';

export type BoxPrograms = {
  /** Prepares a program, and returns what its client attaches with. */
  prepare(boxId: BoxId, command: ProgramCommand): { epoch: string; token: string };
  /** Starts the program for the client with the token. */
  attach(runId: RunId, token: string): Promise<UpgradeReply>;
  /** Starts a further command in the box of a running program, for the client that asks. */
  exec(runId: RunId, command: FurtherCommand, by: string): Promise<UpgradeReply>;
  /** Resolves when it is gone; false when there was none. */
  end(key: RunnerKey): Promise<boolean>;
  endAll(): Promise<number>;
};

/** `onStopped`: called when a signal stopped the command on its terminal. */
type Client = { onStopped: OnStopped };

type Program = Client & {
  boxId: BoxId;
  key: RunnerKey;
  command: ProgramCommand;
  token: string;
  isAttached: boolean;
  /** Set while it runs. */
  process: SandboxCommand | undefined;
  /** It was to be ended before it started. */
  isCanceled: boolean;
  over: PromiseWithResolvers<void>;
};

const TOKEN_BYTES = 32;
const ATTACH_TIMEOUT_MS = 15_000;
/** After SIGHUP, because its client is gone. */
const HANGUP_GRACE_MS = 5_000;
const YEAR_MS = 365 * 86_400_000;
/** Bounded by its client, which reads with backpressure. */
const OUTPUT_BYTES_MAX = 2 ** 40;

export function makeBoxPrograms(options: {
  boxes: Pick<BoxTable, 'ownerOf' | 'exec'>;
  runEnds: RunEnds;
  store: Pick<SandboxdStore, 'recordCommand'>;
  log: Log;
}): BoxPrograms {
  const { boxes, runEnds, store, log } = options;
  const programs = new Map<RunId, Program>();
  runEnds.onIdle(() => {
    if (programs.size > 0)
      log.warn('agentd stopped polling; ending programs', { count: programs.size });
    for (const program of programs.values()) cancel(program);
  });

  const finish = (program: Program, end: RunnerEnd): void => {
    const { runId, fence, mode } = program.key;
    if (programs.get(runId) === program) programs.delete(runId);
    runEnds.add({ run_id: runId, fence, mode, end });
    program.over.resolve();
  };

  const cancel = (program: Program): void => {
    program.isCanceled = true;
    if (program.process !== undefined) program.process.kill();
    else if (!program.isAttached) finish(program, notStarted('killed', 'no client attached'));
  };

  const start = async (
    boxId: BoxId,
    { terminal, ...command }: FurtherCommand,
    client: Client,
  ): Promise<SandboxCommand> => {
    const limits = { wall_ms: YEAR_MS, cpu_ms: YEAR_MS, output_bytes: OUTPUT_BYTES_MAX };
    const asked = {
      ...command,
      limits,
      isStdinOpen: true as const,
      ...(terminal === undefined ? {} : { pty: terminal }),
      onStopped: (signal: number) => client.onStopped(signal),
    };
    return boxes.exec(boxId, asked, new AbortController().signal);
  };

  const hangUp = (client: Client, process: SandboxCommand): void => {
    client.onStopped = () => process.signal(constants.signals.SIGCONT);
    process.discard();
    process.signal(constants.signals.SIGHUP);
    const timer = setTimeout(() => process.kill(), HANGUP_GRACE_MS);
    timer.unref();
    void process.ended.then(() => clearTimeout(timer));
  };

  const serve = (client: Client, process: SandboxCommand): UpgradeReply => {
    const onGone = (): void => hangUp(client, process);
    return new UpgradeReply({
      accept(socket) {
        client.onStopped = connectClient({ socket, process, onGone, log }).stopped;
      },
      abandon: onGone,
    });
  };

  return {
    prepare(boxId, command) {
      const owner = boxes.ownerOf(boxId);
      if (owner === undefined) throw fault('not_found', `box ${boxId} is not open`);
      const { run_id: runId, fence } = owner;
      if (programs.has(runId)) throw fault('conflict', `${runId} already has a program`);
      const program: Program = {
        boxId,
        key: { runId, fence, mode: 'live' },
        command,
        token: randomBytes(TOKEN_BYTES).toString('base64url'),
        isAttached: false,
        process: undefined,
        onStopped: () => program.process?.signal(constants.signals.SIGCONT),
        isCanceled: false,
        over: Promise.withResolvers(),
      };
      programs.set(runId, program);
      const timer = setTimeout(() => {
        if (!program.isAttached) cancel(program);
      }, ATTACH_TIMEOUT_MS);
      timer.unref();
      void program.over.promise.then(() => clearTimeout(timer));
      runEnds.restartTimer();
      return { epoch: runEnds.epoch, token: program.token };
    },

    async attach(runId, token) {
      const program = programs.get(runId);
      if (program === undefined || program.isAttached || !isEqual(program.token, token))
        throw notAttachableFault(runId);
      program.isAttached = true;
      let process: SandboxCommand;
      try {
        process = await start(program.boxId, program.command, program);
      } catch (error) {
        finish(program, notStarted(null, (error as Error).message));
        throw error;
      }
      program.process = process;
      if (program.isCanceled) process.kill();
      void process.ended.then((exit) => finish(program, toRunnerEnd(exit, '')));
      return serve(program, process);
    },

    async exec(runId, { env, ...command }, by) {
      const program = programs.get(runId);
      const owner = program && boxes.ownerOf(program.boxId);
      if (program?.process === undefined || owner === undefined || program.isCanceled)
        throw fault('not_found', `no program of ${runId} is running`, {
          hint: 'See which are: agentctl box list.',
        });
      const { boxId } = program;
      const ran = await store.recordCommand(boxId, owner, { by, argv: command.argv });
      const client: Client = { onStopped: () => undefined };
      const asked = { ...command, env: { ...program.command.env, ...env } };
      const process = await start(boxId, asked, client).catch(async (error: unknown) => {
        await ran.end({ status: 'failed' });
        throw error;
      });
      void process.ended
        .then((exit) => ran.end(describeExit(exit)))
        .catch((error: unknown) =>
          log.error('recording the end of a command failed', { run: runId, error }),
        );
      return serve(client, process);
    },

    async end(key) {
      const program = programs.get(key.runId);
      if (program === undefined || program.key.fence !== key.fence || key.mode !== 'live')
        return false;
      cancel(program);
      await program.over.promise;
      return true;
    },

    async endAll() {
      const all = [...programs.values()];
      for (const program of all) cancel(program);
      await Promise.all(all.map(({ over }) => over.promise));
      return all.length;
    },
  };
}

const describeExit = (exit: CommandExit) =>
  exit === 'gone'
    ? { status: 'warden' }
    : {
        status: exit.endedBy ?? 'exited',
        data: { exit_code: exit.exitCode, signal: exit.signal },
      };

const notStarted = (endedBy: RunnerEnd['ended_by'], why: string): RunnerEnd => ({
  code: null,
  signal: null,
  ended_by: endedBy,
  stderr_tail: why,
});

function isEqual(known: string, given: string): boolean {
  const [a, b] = [Buffer.from(known), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The same for every cause, so that nobody learns of programs by trying. */
const notAttachableFault = (runId: RunId): Fault =>
  fault('not_found', `no program of ${runId} waits for this client`, {
    hint: 'Only the command that started it attaches to it, once: agentctl box run.',
  });
