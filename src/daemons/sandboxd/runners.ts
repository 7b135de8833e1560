// Runners: each in a sandbox of its own, with three sockets, Node and the runner's program, and
// nothing else. It lives for as long as agentd waits for its end.
import { existsSync, mkdirSync, readdirSync, realpathSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { runDirName } from '../../platform/daemon.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { RUN_DAEMONS, type RunDaemonName } from '../../wire/daemons.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId, RunId } from '../../wire/primitives.ts';
import type { RunnerEnd, RunnerEnded, StartRunnerBody } from '../../wire/sandboxd.ts';
import type { RunnerPlace } from './adapters/host-places.ts';
import type { Bind, PlanLimits, WardenPlan } from './adapters/plan.ts';
import type { ProcessRecords } from './adapters/process-records.ts';
import type { CommandExit, SandboxCommand, Warden } from './adapters/warden.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identities, Identity } from './identities.ts';
import { makeOrRefused } from './refusals.ts';
import type { SandboxdStore } from './store.ts';

type Sockets = Record<RunDaemonName, string>;
type Key = { runId: RunId; fence: number; mode: 'live' | 'replay' };

export type Runners = {
  start(body: StartRunnerBody): Promise<{ pid: number; epoch: string; sockets: Sockets }>;
  /**
   * Ends that came after a number; waits for the next for a while when there is none. Whoever
   * counted in an earlier life is told at once that this is another, for its runners are gone.
   */
  ends(
    known: { after: number; epoch?: string | undefined },
    signal: AbortSignal,
  ): Promise<{ epoch: string; ends: RunnerEnded[] }>;
  /** False when it is not there any more. */
  tell(key: Key, line: string): boolean;
  /** Resolves when it is gone; false when there was none. */
  end(key: Key): Promise<boolean>;
  endAll(): Promise<number>;
  count(): number;
};

type LiveRunner = { command: SandboxCommand; ended: Promise<void> };

const POLL_MS = 20_000;
/** Nobody has asked for so long: agentd is gone, and runners work for nobody. */
const ALONE_MS = 3_000;
const STDERR_TAIL_BYTES = 8_192;
const YEAR_MS = 365 * 86_400_000;

const daemonsIn = '/run/agentd';

export type RunnersOptions = {
  config: SandboxdConfig;
  runtimeDir: string;
  place: () => RunnerPlace;
  identities: Identities;
  warden: Pick<Warden, 'start'>;
  store: Pick<SandboxdStore, 'recordOpened' | 'recordClosed' | 'recordRefused'>;
  records: ProcessRecords;
  newId: NewId;
  log: Log;
  failpoint: (name: string) => void;
};

export function makeRunners(options: RunnersOptions): Runners {
  const { config, store, records, log, newId } = options;
  const runtimeDir = realpathSync(options.runtimeDir);
  const live = new Map<string, LiveRunner>();
  const epoch = newId('life');
  const told = makeEnds();
  const alone = makeIdleTimer(() => {
    if (live.size > 0) log.warn('nobody waits for the runners; ending them', { count: live.size });
    for (const { command } of live.values()) command.kill();
  });
  const starting = new Set<Promise<unknown>>();
  const onHost = config.runner_level === 'L1';
  const orRefused = makeOrRefused(store, log);

  /** The directories are there before the sockets are: the box is built while they are opened. */
  const socketDirs = (name: string): string[] =>
    RUN_DAEMONS.map((daemon) => join(runtimeDir, daemon, name));
  const socketsOf = (name: string): Sockets => {
    const at = (daemon: string) =>
      join(onHost ? join(runtimeDir, daemon, name) : join(daemonsIn, daemon), `${daemon}.sock`);
    return { agentd: at('agentd'), toold: at('toold'), modeld: at('modeld') };
  };

  const planOf = (id: BoxId, name: string, identity: Identity): WardenPlan => {
    const place = options.place();
    const dirs = socketDirs(name).map((src, at): Bind => {
      const dst = onHost ? src : join(daemonsIn, RUN_DAEMONS[at]!);
      return { kind: 'ro', src, dst };
    });
    return {
      id,
      level: onHost ? 1 : 2,
      profile: 'runner',
      uid: identity.uid,
      gid: identity.gid,
      user: identity.user,
      args: place.argv,
      env: place.env,
      cwd: '/',
      binds: [...place.binds, ...dirs],
      limits: limitsOf(config),
    };
  };

  const removeDirs = (name: string): void => {
    // Only what is empty: whoever still has a socket there removes it with the socket.
    for (const dir of socketDirs(name)) {
      try {
        rmdirSync(dir);
      } catch {
        // Gone already, or not empty.
      }
    }
  };

  // None lives yet: what is here and empty is of a life that ended before it could tidy up.
  for (const daemon of RUN_DAEMONS)
    for (const name of namesIn(join(runtimeDir, daemon)))
      if (name.startsWith('run_')) removeDirs(name);

  const watch = (
    command: SandboxCommand,
    name: string,
    key: Key,
    recorded: { id: BoxId; opened: Promise<void> } | undefined,
  ): LiveRunner => {
    const tail = keepTail(command);
    const forget = records.add(command.pid, key);
    const ended = command.ended.then(async (exit) => {
      await tail.done;
      forget();
      removeDirs(name);
      live.delete(name);
      const end = endOf(exit, tail.text());
      const { runId, fence, mode } = key;
      told.add({ run_id: runId, fence, mode, end });
      if (recorded === undefined) return;
      const how = { exit_code: end.code, signal: end.signal };
      // Never before its opening is written, however short its life was.
      await recorded.opened
        .then(() =>
          store.recordClosed(recorded.id, { endedBy: end.ended_by ?? 'itself', data: how }),
        )
        .catch((error: unknown) =>
          log.error('the end of a runner could not be recorded', { box: recorded.id, error }),
        );
    });
    return { command, ended };
  };

  const begin = async (id: BoxId, name: string, agent: string) => {
    const identity = await options.identities.identityFor(agent);
    try {
      for (const dir of socketDirs(name)) mkdirSync(dir, { recursive: true, mode: 0o755 });
      options.failpoint('sandboxd.before-runner');
      const command = await options.warden.start(planOf(id, name, identity));
      return { command, uid: identity.uid };
    } catch (error) {
      removeDirs(name);
      throw error;
    }
  };

  const start = async (body: StartRunnerBody) => {
    const key: Key = { runId: body.run_id, fence: body.fence, mode: body.mode };
    const name = runDirName(key, key.mode);
    if (live.has(name)) throw fault('conflict', `${name} has a runner already`);
    const { mode, ...whose } = body;
    const id = newId<BoxId>('box');
    const box = { id, kind: 'runner' as const, level: config.runner_level, ...whose };
    // A replay leaves no trace in any record.
    const { command, uid } = await (mode === 'live'
      ? orRefused(box, () => begin(id, name, body.agent))
      : begin(id, name, body.agent));
    const recorded =
      mode === 'live' ? { id, opened: store.recordOpened({ ...box, uid }) } : undefined;
    const entry = watch(command, name, key, recorded);
    live.set(name, entry);
    alone.look();
    options.failpoint('sandboxd.after-runner');
    await recorded?.opened.catch((error: unknown) => {
      // What cannot be recorded does not run.
      command.kill();
      throw error;
    });
    return { pid: command.pid, epoch, sockets: socketsOf(name) };
  };

  const endOne = async (entry: LiveRunner): Promise<void> => {
    entry.command.kill();
    await entry.ended;
  };
  const find = (key: Key): LiveRunner | undefined => live.get(runDirName(key, key.mode));

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
    async ends({ after, epoch: known = epoch }, signal) {
      const leave = alone.enter();
      try {
        if (known !== epoch) return { epoch, ends: told.all() };
        return { epoch, ends: await told.after(after, signal) };
      } finally {
        leave();
      }
    },
    tell(key, line) {
      const entry = find(key);
      void entry?.command.stdin(Buffer.from(`${line}\n`));
      return entry !== undefined;
    },
    async end(key) {
      const entry = find(key);
      if (entry === undefined) return false;
      await endOne(entry);
      return true;
    },
    async endAll() {
      await Promise.allSettled([...starting]);
      const all = [...live.values()];
      await Promise.all(all.map(endOne));
      return all.length;
    },
    count: () => live.size,
  };
}

function namesIn(dir: string): string[] {
  return existsSync(dir) ? readdirSync(dir) : [];
}

/** Ends in order, kept until whoever asks says that it has them. */
function makeEnds() {
  let last = 0;
  let kept: RunnerEnded[] = [];
  let wake = Promise.withResolvers<void>();
  return {
    add(end: Omit<RunnerEnded, 'seq'>): void {
      kept.push({ seq: ++last, ...end });
      wake.resolve();
      wake = Promise.withResolvers();
    },
    all: (): RunnerEnded[] => [...kept],
    async after(seq: number, signal: AbortSignal): Promise<RunnerEnded[]> {
      kept = kept.filter((end) => end.seq > seq);
      if (kept.length > 0) return kept;
      const over = Promise.withResolvers<void>();
      const timer = setTimeout(over.resolve, POLL_MS);
      signal.addEventListener('abort', () => over.resolve(), { once: true });
      await Promise.race([wake.promise, over.promise]);
      clearTimeout(timer);
      return kept;
    },
  };
}

/** Calls `left` when nobody has been inside for a while. */
function makeIdleTimer(left: () => void) {
  let inside = 0;
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    clearTimeout(timer);
    if (inside > 0) return;
    timer = setTimeout(left, ALONE_MS);
    timer.unref();
  };
  return {
    look,
    enter(): () => void {
      inside++;
      clearTimeout(timer);
      return () => {
        inside--;
        look();
      };
    },
  };
}

/** Time is the task's to limit; the runner itself computes little. */
function limitsOf(config: SandboxdConfig): PlanLimits {
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

function endOf(exit: CommandExit, stderrTail: string): RunnerEnd {
  if (exit === 'gone')
    return { code: null, signal: null, ended_by: 'warden', stderr_tail: stderrTail };
  const { exitCode, signal, endedBy } = exit;
  return { code: exitCode, signal, ended_by: endedBy, stderr_tail: stderrTail };
}

/** Its last words, for the report of a crash; what it says on stdout is nobody's. */
function keepTail(command: SandboxCommand): { text(): string; done: Promise<void> } {
  let kept: Buffer = Buffer.alloc(0);
  const read = async (): Promise<void> => {
    for await (const { stream, bytes } of command.pieces()) {
      if (stream !== 'stderr') continue;
      const all = kept.length === 0 ? bytes : Buffer.concat([kept, bytes]);
      kept = all.length > STDERR_TAIL_BYTES ? Buffer.from(all.subarray(-STDERR_TAIL_BYTES)) : all;
    }
  };
  return { text: () => kept.toString('utf8'), done: read() };
}
