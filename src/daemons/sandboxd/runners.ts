// Runs each runner in its own sandbox, with three sockets, Node and the runner's program, and
// nothing else. Runners end when agentd stops polling for their ends.
import { existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { runDirName } from '../../platform/daemon.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { RUN_DAEMONS, type RunDaemonName } from '../../wire/daemons.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId, RunId } from '../../wire/primitives.ts';
import type { RunnerEnd, StartRunnerBody } from '../../wire/sandboxd.ts';
import type { RunnerFiles } from './adapters/host-paths.ts';
import type { Bind, PlanLimits, WardenPlan } from './adapters/plan.ts';
import type { ProcessRecords } from './adapters/process-records.ts';
import type { CommandExit, SandboxCommand, Warden } from './adapters/warden.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identities, Identity } from './identities.ts';
import { makeRefusalRecorder } from './refusals.ts';
import type { RunEnds } from './run-ends.ts';
import { makeSpareRunners, type StartedRunner } from './spare-runners.ts';
import type { SandboxdStore } from './store.ts';

type Sockets = Record<RunDaemonName, string>;
export type RunnerKey = { runId: RunId; fence: number; mode: 'live' | 'replay' };

export type Runners = {
  start(body: StartRunnerBody): Promise<{ pid: number; epoch: string; sockets: Sockets }>;
  /** Returns false when the runner is gone. */
  sendLine(key: RunnerKey, line: string): boolean;
  /** Resolves when it is gone; false when there was none. */
  end(key: RunnerKey): Promise<boolean>;
  endAll(): Promise<number>;
  count(): number;
  spareCount(): number;
};

type LiveRunner = { command: SandboxCommand; ended: Promise<void> };

const STDERR_TAIL_BYTES = 8_192;
const YEAR_MS = 365 * 86_400_000;

const DAEMONS_DIR = '/run/agentd';
const SPARE_PREFIX = 'spare_';

export type RunnersOptions = {
  config: SandboxdConfig;
  runtimeDir: string;
  runnerFiles: () => RunnerFiles;
  identities: Identities;
  warden: Pick<Warden, 'start'>;
  store: Pick<SandboxdStore, 'recordOpened' | 'recordClosed' | 'recordRefused'>;
  records: ProcessRecords;
  runEnds: RunEnds;
  newId: NewId;
  log: Log;
  failpoint: (name: string) => void;
};

export function makeRunners(options: RunnersOptions): Runners {
  const { config, store, records, log, newId } = options;
  const runtimeDir = realpathSync(options.runtimeDir);
  const live = new Map<string, LiveRunner>();
  const { runEnds } = options;
  runEnds.onIdle(() => {
    if (live.size > 0) log.warn('agentd stopped polling; ending runners', { count: live.size });
    for (const { command } of live.values()) command.kill();
  });
  const starting = new Set<Promise<unknown>>();
  const recordingRefusal = makeRefusalRecorder(store, log);

  /** Created before the sockets: the box is built while the daemons open them. */
  const socketDirs = (name: string): string[] =>
    RUN_DAEMONS.map((daemon) => join(runtimeDir, daemon, name));
  const toSocketPaths = (): Sockets => {
    const at = (daemon: string) => join(DAEMONS_DIR, daemon, `${daemon}.sock`);
    return { agentd: at('agentd'), toold: at('toold'), modeld: at('modeld') };
  };

  const makePlan = (id: BoxId, name: string, identity: Identity): WardenPlan => {
    const runnerFiles = options.runnerFiles();
    const dirs = socketDirs(name).map((src, at): Bind => {
      return { kind: 'ro', src, dst: join(DAEMONS_DIR, RUN_DAEMONS[at]!) };
    });
    return {
      id,
      level: 2,
      profile: 'runner',
      uid: identity.uid,
      gid: identity.gid,
      user: identity.user,
      args: runnerFiles.argv,
      env: runnerFiles.env,
      cwd: '/',
      binds: [...runnerFiles.binds, ...dirs],
      limits: makeLimits(config),
    };
  };

  const removeDirs = (name: string): void => {
    // Only empty ones: a daemon with a socket there removes the directory itself.
    for (const dir of socketDirs(name)) {
      try {
        rmdirSync(dir);
      } catch {
        // Gone already, or not empty.
      }
    }
  };

  // No runner is alive yet: empty directories are leftovers of a crash.
  for (const daemon of RUN_DAEMONS)
    for (const name of listDir(join(runtimeDir, daemon)))
      if (name.startsWith('run_') || name.startsWith(SPARE_PREFIX)) removeDirs(name);

  const watch = (
    command: SandboxCommand,
    name: string,
    key: RunnerKey,
    recorded: { id: BoxId; opened: Promise<void> } | undefined,
  ): LiveRunner => {
    const tail = captureStderrTail(command);
    const forget = records.add(command.pid, key);
    const ended = command.ended.then(async (exit) => {
      await tail.done;
      forget();
      removeDirs(name);
      live.delete(name);
      const end = toRunnerEnd(exit, tail.text());
      const { runId, fence, mode } = key;
      runEnds.add({ run_id: runId, fence, mode, end });
      if (recorded === undefined) return;
      const how = { exit_code: end.code, signal: end.signal };
      // The opening is always recorded first, however short-lived the runner was.
      await recorded.opened
        .then(() =>
          store.recordClosed(recorded.id, { endedBy: end.ended_by ?? 'itself', data: how }),
        )
        .catch((error: unknown) =>
          log.error('recording the end of a runner failed', { box: recorded.id, error }),
        );
    });
    return { command, ended };
  };

  const startInBox = async (id: BoxId, dirName: string, agent: string): Promise<StartedRunner> => {
    const identity = await options.identities.identityFor(agent);
    try {
      for (const dir of socketDirs(dirName)) mkdirSync(dir, { recursive: true, mode: 0o755 });
      options.failpoint('sandboxd.before-runner');
      const command = await options.warden.start(makePlan(id, dirName, identity));
      return { id, dirName, identity, command };
    } catch (error) {
      removeDirs(dirName);
      throw error;
    }
  };

  const spares = makeSpareRunners({
    // On the host a runner is given the paths of its directories, which a spare's must not have.
    countMax: Math.min(config.runner_spares, Math.floor(config.boxes_max / 8)),
    idleMs: config.runner_spare_idle_ms,
    start(agent) {
      const id = newId<BoxId>('box');
      return startInBox(id, `${SPARE_PREFIX}${id}`, agent);
    },
    onGone: ({ dirName }) => removeDirs(dirName),
    log,
  });

  /**
   * Gives the agent's spare to a run: its socket directories get the run's name. The box sees the
   * directories themselves, by whatever name.
   */
  const takeSpare = async (agent: string, name: string): Promise<StartedRunner | undefined> => {
    const spare = spares.take(agent);
    if (spare === undefined) return undefined;
    try {
      const { uid, gid, user } = await options.identities.identityFor(agent);
      const { identity } = spare;
      if (identity.uid !== uid || identity.gid !== gid || identity.user !== user)
        throw new Error('the identity of the agent changed');
      const to = socketDirs(name);
      for (const [i, from] of socketDirs(spare.dirName).entries()) renameSync(from, to[i]!);
      return { ...spare, dirName: name };
    } catch (error) {
      log.warn('a spare runner could not be used', { agent, error });
      spare.command.kill();
      removeDirs(spare.dirName);
      removeDirs(name);
      return undefined;
    }
  };

  const start = async (body: StartRunnerBody) => {
    const key: RunnerKey = { runId: body.run_id, fence: body.fence, mode: body.mode };
    const name = runDirName(key, key.mode);
    if (live.has(name)) throw fault('conflict', `${name} already has a runner`);
    const { mode, ...owner } = body;
    const spare = await takeSpare(body.agent, name);
    const id = spare?.id ?? newId<BoxId>('box');
    const box = { id, kind: 'runner' as const, level: 'L2' as const, ...owner };
    const startCold = () => startInBox(id, name, body.agent);
    // A replay is not recorded.
    const { command, identity } =
      spare ?? (await (mode === 'live' ? recordingRefusal(box, startCold) : startCold()));
    const recorded =
      mode === 'live'
        ? { id, opened: store.recordOpened({ ...box, uid: identity.uid }) }
        : undefined;
    const entry = watch(command, name, key, recorded);
    live.set(name, entry);
    runEnds.restartTimer();
    spares.noteUse(body.agent);
    options.failpoint('sandboxd.after-runner');
    await recorded?.opened.catch((error: unknown) => {
      // A runner that cannot be recorded must not run.
      command.kill();
      throw error;
    });
    return { pid: command.pid, epoch: runEnds.epoch, sockets: toSocketPaths() };
  };

  const endRunner = async (entry: LiveRunner): Promise<void> => {
    entry.command.kill();
    await entry.ended;
  };
  const find = (key: RunnerKey): LiveRunner | undefined => live.get(runDirName(key, key.mode));

  return {
    start(body) {
      const work = start(body);
      starting.add(work);
      work.then(
        () => starting.delete(work),
        () => starting.delete(work),
      );
      return work;
    },
    sendLine(key, line) {
      const entry = find(key);
      void entry?.command.stdin(Buffer.from(`${line}\n`));
      return entry !== undefined;
    },
    async end(key) {
      const entry = find(key);
      if (entry === undefined) return false;
      await endRunner(entry);
      return true;
    },
    async endAll() {
      await Promise.allSettled([...starting]);
      const all = [...live.values()];
      await Promise.all([...all.map(endRunner), spares.endAll()]);
      return all.length;
    },
    count: () => live.size,
    spareCount: spares.count,
  };
}

function listDir(dir: string): string[] {
  return existsSync(dir) ? readdirSync(dir) : [];
}

/** Time is limited by the task; the runner itself computes little. */
function makeLimits(config: SandboxdConfig): PlanLimits {
  return {
    wallMs: YEAR_MS,
    cpuMs: YEAR_MS,
    memoryBytes: config.runner_memory_bytes,
    pids: config.runner_pids,
    outputBytes: 64 * 1024 * 1024,
    nofile: 1_024,
    fsizeBytes: 1024 * 1024,
    graceMs: 0,
    cpuMilli: 0,
  };
}

export function toRunnerEnd(exit: CommandExit, stderrTail: string): RunnerEnd {
  if (exit === 'gone')
    return { code: null, signal: null, ended_by: 'warden', stderr_tail: stderrTail };
  const { exitCode, signal, endedBy } = exit;
  return { code: exitCode, signal, ended_by: endedBy, stderr_tail: stderrTail };
}

/** Keeps the end of stderr for crash reports, and discards stdout. */
function captureStderrTail(command: SandboxCommand): { text(): string; done: Promise<void> } {
  let kept: Buffer = Buffer.alloc(0);
  const read = async (): Promise<void> => {
    for await (const { stream, bytes } of command.readOutput()) {
      if (stream !== 'stderr') continue;
      const all = kept.length === 0 ? bytes : Buffer.concat([kept, bytes]);
      kept = all.length > STDERR_TAIL_BYTES ? Buffer.from(all.subarray(-STDERR_TAIL_BYTES)) : all;
    }
  };
  return { text: () => kept.toString('utf8'), done: read() };
}
