// Tool boxes: opened for a run and kept open, so that a command needs no mounts, until the run
// ends. Also runs single commands in disposable boxes.
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { BoxId } from '../../wire/primitives.ts';
import type { FileRequestInput, FileResponseTo } from '../../wire/sandboxd/files.ts';
import {
  BOX_NOT_OPEN,
  type ExecBody,
  type OpenBox,
  type OpenBoxBody,
  type RunOnceBody,
} from '../../wire/sandboxd.ts';
import type { PlanLimits, TerminalSize } from './adapters/plan.ts';
import type {
  CommandExit,
  OnStopped,
  OpenedBox,
  SandboxCommand,
  Warden,
} from './adapters/warden.ts';
import type { BoxDisk, BoxDisks } from './box-disk.ts';
import { type BoxFileService, estimateBytes, makeBoxFiles, toBoxfsRoots } from './box-files.ts';
import { commandLimits, diskLimit } from './box-limits.ts';
import {
  type BoxOwner,
  findLayerId,
  findLayerPath,
  hasTreeLayer,
  type PlanBox,
} from './box-plan.ts';
import { endingWith, withSealReason } from './command-end.ts';
import { baseEnv, resolveProgram } from './command-environment.ts';
import type { SandboxdConfig } from './config.ts';
import { makePathRenamer, type RenamePaths } from './error-paths.ts';
import type { LayerOriginals } from './layer-originals.ts';
import type { Layers } from './layers.ts';
import { assertBoxLevel, assertLevel } from './levels.ts';
import { type LiveGuards, startGuarded } from './live-guards.ts';
import type { LivePlace } from './live-rows.ts';
import { makeRefusalRecorder } from './refusals.ts';
import { WORKSPACE } from './rules.ts';
import type { NewBox, SandboxdStore } from './store.ts';
import type { Leave, TreeGate } from './tree-gate.ts';
import type { Workspaces } from './workspaces.ts';

/** `isStdinOpen`: the caller sends standard input and its end itself. */
type BoxExecBody = Omit<ExecBody, 'call_id'> & {
  isStdinOpen?: true;
  pty?: TerminalSize;
  onStopped?: OnStopped;
};

export type BoxTable = {
  open(id: BoxId, body: OpenBoxBody): Promise<OpenBox>;
  /** Starts nothing when the signal is aborted: the caller is gone. */
  exec(id: BoxId, body: BoxExecBody, signal: AbortSignal): Promise<SandboxCommand>;
  /** `isWrite`: the request needs disk space. */
  files<R extends FileRequestInput>(
    id: BoxId,
    request: R,
    isWrite: boolean,
  ): Promise<FileResponseTo<R>>;
  /** Undefined when the box is not open. */
  ownerOf(id: BoxId): BoxOwner | undefined;
  /** A box with this kept home is open. */
  hasHome(id: string): boolean;
  close(id: BoxId): Promise<boolean>;
  runOnce(body: RunOnceBody, signal: AbortSignal): Promise<SandboxCommand>;
  /** Closes boxes of the run's earlier activations. */
  closeEarlier(runId: string, fence: number): void;
  closeAll(): Promise<number>;
  /** Closes the boxes on the layer of a task tree. */
  closeTree(rootTaskId: string): Promise<void>;
  count(): number;
};

type OpenBoxState = {
  box: OpenedBox;
  view: OpenBox;
  limits: PlanLimits;
  files: BoxFileService;
  disk: BoxDisk;
  live: LivePlace | undefined;
};
type BoxEntry = { opened: Promise<OpenBoxState>; isOpen: boolean; owner: BoxOwner };

export type BoxesOptions = {
  config: SandboxdConfig;
  planBox: PlanBox;
  workspaces: Pick<Workspaces, 'pathAliases'>;
  layers: Pick<Layers, 'refresh'>;
  gate: TreeGate;
  liveGuards: Pick<LiveGuards, 'enter' | 'hold'>;
  originals: Pick<LayerOriginals, 'hold' | 'keep'>;
  warden: Pick<Warden, 'start' | 'open'>;
  store: Pick<SandboxdStore, 'recordOpened' | 'recordClosed' | 'recordRefused'>;
  boxDisks: BoxDisks;
  /** Directories whose host paths are hidden from agents. */
  hidden: readonly string[];
  clock: Clock;
  newId: NewId;
  log: Log;
  failpoint: (name: string) => void;
};

export function makeBoxes(options: BoxesOptions): BoxTable {
  const { config, planBox, workspaces, layers, gate, warden, store, boxDisks, log } = options;
  const { originals, liveGuards } = options;
  const entries = new Map<BoxId, BoxEntry>();
  const recordingRefusal = makeRefusalRecorder(store, log);

  const renamePathsFor = ({ agent, root_task_id, workspace_path }: BoxOwner): RenamePaths => {
    const box = { agent, rootTaskId: root_task_id, path: workspace_path };
    return makePathRenamer(workspaces.pathAliases(box), options.hidden);
  };

  const diskFor = (owner: BoxOwner, writes: readonly string[], limitBytes: number) =>
    boxDisks.forBox({ rootTaskId: owner.root_task_id, writes, limitBytes });

  /** Enters the gate of a layered tree, to not overlap with a change below its layer. */
  const enter = async (owner: BoxOwner): Promise<Leave> =>
    findLayerPath(owner) === undefined ? () => undefined : gate.enter(findLayerId(owner));

  /** Keeps what changes of a layer began from, and then leaves the gate of its tree. */
  const leaveKept = async (owner: BoxOwner, leave: Leave): Promise<void> => {
    if (hasTreeLayer(owner)) await originals.keep(owner.root_task_id);
    leave();
  };

  const inside = async <T>(owner: BoxOwner, work: () => Promise<T>): Promise<T> => {
    const leave = await enter(owner);
    return work().finally(() => void leaveKept(owner, leave));
  };

  const toNewBox = (
    id: BoxId,
    kind: NewBox['kind'],
    body: BoxOwner & Pick<OpenBoxBody, 'level'>,
  ): Omit<NewBox, 'uid'> => {
    const { run_id, fence, agent, task_id, root_task_id, level } = body;
    return { id, kind, level, run_id, fence, agent, task_id, root_task_id };
  };

  const close = (id: BoxId, exit: CommandExit, opened: Promise<unknown>): Promise<void> => {
    const by = exit === 'gone' ? 'warden' : (exit.endedBy ?? 'itself');
    const endedBy = by === 'killed' ? 'closed' : by;
    const data = exit === 'gone' ? {} : { exit_code: exit.exitCode, signal: exit.signal };
    // The opening is always recorded first, however short-lived the box was.
    return opened
      .then(() => store.recordClosed(id, { endedBy, data }))
      .catch((error: unknown) =>
        log.error('recording the end of a box failed', { box: id, error }),
      );
  };

  const openPlanned = async (id: BoxId, body: OpenBoxBody) => {
    const planned = await planBox(id, body, body.level as 'L2');
    const { plan, writes, release } = planned;
    const limitBytes = diskLimit(config, body.rules);
    const disk = await orElse(release, diskFor(body, writes, limitBytes));
    options.failpoint('sandboxd.before-open');
    const box = await orElse(() => {
      disk.close();
      release();
    }, warden.open(plan));
    return { ...planned, disk, box };
  };

  const openBox = async (id: BoxId, body: OpenBoxBody): Promise<OpenBoxState> => {
    const record = toNewBox(id, body.is_program === true ? 'program' : 'tools', body);
    const opened = await recordingRefusal(record, async () => {
      assertBoxLevel(body.level);
      return openPlanned(id, body);
    });
    const { plan, home, missing, release, box, disk, live } = opened;
    const releaseLive = live && liveGuards.hold(live);
    const releaseOriginals = hasTreeLayer(body) ? originals.hold(body.root_task_id) : undefined;
    const recorded = store.recordOpened({ ...record, uid: plan.uid });
    void box.ended.then((exit) => {
      entries.delete(id);
      disk.close();
      release();
      releaseLive?.();
      releaseOriginals?.();
      return close(id, exit, recorded);
    });
    options.failpoint('sandboxd.after-open');
    await recorded.catch(async (error: unknown) => {
      await box.close();
      throw error;
    });
    const view: OpenBox = {
      box_id: id,
      level: body.level,
      workspace: WORKSPACE,
      home,
      uid: plan.uid,
      gid: plan.gid,
      missing,
    };
    const files = makeBoxFiles({
      roots: toBoxfsRoots(plan.binds, body.rules),
      clock: options.clock,
      log,
      run: (args) => {
        const limits = { ...plan.limits, graceMs: 0, cpuMilli: 0 };
        return execInBox(id, box, { args, env: {}, cwd: '/', limits });
      },
    });
    return { box, view, limits: plan.limits, files, disk, live };
  };

  const onStarted = (command: SandboxCommand): void => {
    options.failpoint('sandboxd.after-exec');
    void command.ended.then(() => options.failpoint('sandboxd.after-command'));
  };

  const findBox = async (id: BoxId) => {
    const found = entries.get(id);
    // It ended with the warden or with sandboxd: the caller opens it again.
    if (found === undefined) throw boxNotOpenFault(id);
    return { ...(await found.opened), owner: found.owner };
  };

  /** Before a command or file request, which sees what the person has changed meanwhile. */
  const enterBox = async (id: BoxId): Promise<Leave> => {
    const owner = entries.get(id)?.owner;
    if (owner === undefined) throw boxNotOpenFault(id);
    if (findLayerPath(owner) !== undefined) await layers.refresh(findLayerId(owner));
    return enter(owner);
  };

  const closeEarlier = (runId: string, fence: number): void => {
    for (const { owner, opened } of entries.values())
      if (owner.run_id === runId && owner.fence < fence)
        opened.then(({ box }) => box.close()).catch(() => undefined);
  };

  return {
    async open(id, body) {
      closeEarlier(body.run_id, body.fence);
      const found = entries.get(id);
      if (found !== undefined) {
        const same = found.owner.run_id === body.run_id && found.owner.fence === body.fence;
        if (!same) throw fault('conflict', `${id} belongs to another run`);
        return (await found.opened).view;
      }
      const opening = inside(body, async () => {
        const state = await openBox(id, body);
        entry.isOpen = true;
        return state;
      });
      const opened = renamePathsFor(body)(opening);
      const entry: BoxEntry = { opened, owner: body, isOpen: false };
      entries.set(id, entry);
      opened.catch(() => entries.get(id) === entry && entries.delete(id));
      return (await opened).view;
    },
    async exec(id, body, signal) {
      const leave = await enterBox(id);
      const { box, view, limits, owner, disk, live } = await orElse(leave, findBox(id));
      const run = () =>
        disk.run(commandLimits(config, body.limits ?? {}, limits), async (ownLimits) => {
          options.failpoint('sandboxd.before-exec');
          assertNotAborted(signal);
          const asked = {
            args: resolveProgram(body.argv),
            env: { ...baseEnv(owner.agent, view.home), ...body.env },
            cwd: body.cwd ?? view.workspace,
            limits: ownLimits,
            ...(body.pty === undefined ? {} : { pty: body.pty }),
          };
          const command = await execInBox(id, box, asked, body.onStopped);
          onStarted(command);
          if (body.isStdinOpen !== true) sendStdin(command, body.stdin_base64);
          return withSealReason(command, box);
        });
      const command = await orElse(
        leave,
        renamePathsFor(owner)(startGuarded(liveGuards, live, run)),
      );
      return endingWith(command, () => leaveKept(owner, leave));
    },
    async files(id, request, isWrite) {
      const leave = await enterBox(id);
      const { files, disk, owner } = await orElse(leave, findBox(id));
      try {
        if (isWrite) await renamePathsFor(owner)(disk.assertSpace(estimateBytes(request)));
        options.failpoint('sandboxd.before-file');
        const answer = await files.perform(request);
        options.failpoint('sandboxd.after-file');
        return answer;
      } finally {
        if (isWrite) await leaveKept(owner, leave);
        else leave();
      }
    },
    ownerOf: (id) => entries.get(id)?.owner,
    hasHome: (id) => [...entries.values()].some(({ owner }) => owner.home_id === id),
    async close(id) {
      const found = entries.get(id);
      if (found === undefined) return false;
      await (await found.opened).box.close();
      return true;
    },
    async runOnce(body, signal) {
      const id = options.newId<BoxId>('box');
      const record = toNewBox(id, 'once', body);
      const leave = await enter(body);
      const starting = recordingRefusal(record, async () => {
        assertLevel(body.level);
        const { plan, home, writes, release, live } = await planBox(id, body, body.level);
        // Paths that an operator declared for a tool do not count against the agent's quota.
        const disk = await orElse(release, diskFor(body, writes, 0));
        const limits = commandLimits(config, body.limits ?? {}, plan.limits);
        const run = () =>
          disk.run(limits, (ownLimits) => {
            options.failpoint('sandboxd.before-exec');
            assertNotAborted(signal);
            return warden.start({
              ...plan,
              args: resolveProgram(body.argv),
              env: { ...baseEnv(body.agent, home), ...body.env },
              cwd: body.cwd ?? (body.level === 'L2' ? WORKSPACE : '/'),
              limits: ownLimits,
            });
          });
        const command = await orElse(release, startGuarded(liveGuards, live, run));
        void command.ended.then(release);
        return { command, uid: plan.uid };
      });
      const started = await orElse(leave, renamePathsFor(body)(starting));
      const { uid } = started;
      const command = endingWith(started.command, () => leaveKept(body, leave));
      onStarted(command);
      const recorded = store.recordOpened({ ...record, uid });
      void command.ended.then((exit) => close(id, exit, recorded));
      await recorded.catch((error: unknown) => {
        command.kill();
        throw error;
      });
      sendStdin(command, body.stdin_base64);
      return command;
    },
    closeEarlier,
    async closeAll() {
      const all = [...entries.values()];
      await Promise.allSettled(all.map(async ({ opened }) => (await opened).box.close()));
      return all.length;
    },
    async closeTree(rootTaskId) {
      // One that is not open yet waits at the gate, or fails with its layer.
      const all = [...entries.values()].filter(
        ({ owner, isOpen }) =>
          isOpen && findLayerId(owner) === rootTaskId && findLayerPath(owner) !== undefined,
      );
      await Promise.allSettled(all.map(async ({ opened }) => (await opened).box.close()));
    },
    count: () => entries.size,
  };
}

/** Cleans up when the work fails. */
function orElse<T>(cleanUp: () => void, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    cleanUp();
    throw error;
  });
}

function assertNotAborted(signal: AbortSignal): void {
  if (signal.aborted) throw fault('canceled', 'the caller has disconnected');
}

const boxNotOpenFault = (id: BoxId) =>
  fault('not_found', `box ${id} is not open`, {
    hint: 'Open it again.',
    details: { reason: BOX_NOT_OPEN },
  });

/** When the warden reports that the box has ended, nothing was started. */
const execInBox = (
  id: BoxId,
  box: OpenedBox,
  command: Parameters<OpenedBox['exec']>[0],
  onStopped?: OnStopped,
) =>
  box.exec(command, onStopped).catch((error: unknown) => {
    throw error instanceof Fault && error.details?.refused === 'box' ? boxNotOpenFault(id) : error;
  });

function sendStdin(command: SandboxCommand, stdinBase64: string | undefined): void {
  if (stdinBase64 !== undefined) void command.stdin(Buffer.from(stdinBase64, 'base64'));
  command.stdinEnd();
}
