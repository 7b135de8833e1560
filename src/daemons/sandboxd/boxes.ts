// Tool boxes: opened for a run, held open so that a command costs no mount work, closed with the
// run. Also the disposable ones, for one command only.
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { BoxId } from '../../wire/primitives.ts';
import type { AnswerTo, FileAsk } from '../../wire/sandboxd/files.ts';
import {
  BOX_NOT_OPEN,
  type BoxRules,
  type ExecBody,
  type OpenBox,
  type OpenBoxBody,
  type RunOnceBody,
} from '../../wire/sandboxd.ts';
import type { BoxfsRoot } from './adapters/boxfs-client.ts';
import { isThere } from './adapters/host-places.ts';
import type { Bind, BoxPlan, PlanLimits } from './adapters/plan.ts';
import type { CommandExit, OpenedBox, SandboxCommand, Warden } from './adapters/warden.ts';
import type { BoxDisk, BoxDisks } from './box-disk.ts';
import { type BoxFileService, makeBoxFiles } from './box-files.ts';
import { baseEnv, boxLimits, commandLimits, diskLimit, resolveProgram } from './box-limits.ts';
import { type InBoxWords, makeInBoxWords } from './box-words.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identities } from './identities.ts';
import { assertLevel } from './levels.ts';
import { makeOrRefused } from './refusals.ts';
import { boxBinds, hostBinds, type Places, WORKSPACE } from './rules.ts';
import type { NewBox, SandboxdStore } from './store.ts';
import type { Workspaces } from './workspaces.ts';

export type BoxTable = {
  open(id: BoxId, body: OpenBoxBody): Promise<OpenBox>;
  /** Aborted: whoever asked has gone, and nothing is begun. */
  exec(id: BoxId, body: Omit<ExecBody, 'call_id'>, signal: AbortSignal): Promise<SandboxCommand>;
  /** `isWrite`: something is to be written that needs room. */
  files<R extends FileAsk>(id: BoxId, request: R, isWrite: boolean): Promise<AnswerTo<R>>;
  close(id: BoxId): Promise<boolean>;
  runOnce(body: RunOnceBody, signal: AbortSignal): Promise<SandboxCommand>;
  /** Those of a run that activations before this one opened. */
  closeEarlier(runId: string, fence: number): void;
  closeAll(): Promise<number>;
  count(): number;
};

type BoxOwner = Pick<OpenBoxBody, 'run_id' | 'fence' | 'agent' | 'task_id' | 'root_task_id'> & {
  workspace_path?: string | undefined;
};
type OpenBoxState = {
  box: OpenedBox;
  view: OpenBox;
  limits: PlanLimits;
  files: BoxFileService;
  room: BoxDisk;
};
type BoxEntry = { opened: Promise<OpenBoxState>; whose: BoxOwner };

export type BoxesOptions = {
  config: SandboxdConfig;
  identities: Identities;
  workspaces: Workspaces;
  warden: Pick<Warden, 'start' | 'open'>;
  store: Pick<SandboxdStore, 'recordOpened' | 'recordClosed' | 'recordRefused'>;
  rooms: BoxDisks;
  system: readonly Bind[];
  secrets: () => readonly string[];
  /** Directories whose names on this host no agent is told. */
  hidden: readonly string[];
  clock: Clock;
  newId: NewId;
  log: Log;
  failpoint: (name: string) => void;
};

export function makeBoxes(options: BoxesOptions): BoxTable {
  const { config, identities, workspaces, warden, store, rooms, log } = options;
  const held = new Map<BoxId, BoxEntry>();
  const orRefused = makeOrRefused(store, log);

  const inWordsOf = ({ agent, root_task_id, workspace_path }: BoxOwner): InBoxWords => {
    const box = { agent, rootTaskId: root_task_id, path: workspace_path };
    return makeInBoxWords(workspaces.namesOf(box), options.hidden);
  };

  /** Everything of a box but its command. */
  const planBox = async (
    id: BoxId,
    body: BoxOwner & Pick<OpenBoxBody, 'rules' | 'network'>,
    level: 'L1' | 'L2',
  ) => {
    const identity = await identities.identityFor(body.agent);
    const workspace = await workspaces.workspaceOf({
      rootTaskId: body.root_task_id,
      path: body.workspace_path,
    });
    const homeAt = `/home/${body.agent}`;
    const places = {
      system: options.system,
      workspace: workspace.upper,
      home: await workspaces.homeOf(body.agent, body.root_task_id, identity),
      homeAt,
      secrets: options.secrets(),
    };
    const { binds, missing } =
      level === 'L2' ? boxBinds(body.rules, places, isThere) : onHost(body.rules, places);
    const { egress_socket } = body.network;
    const home = binds.some(({ kind, dst }) => kind === 'rw' && dst === homeAt) ? homeAt : '/tmp';
    const plan: BoxPlan = {
      id,
      level: level === 'L2' ? 2 : 1,
      profile: 'tool',
      uid: identity.uid,
      gid: workspace.gid,
      user: identity.user,
      binds,
      limits: boxLimits(config, body.rules),
      ...(egress_socket === null ? {} : { egress: egress_socket }),
    };
    const writes = binds.flatMap(({ kind, src }) =>
      kind === 'rw' && src !== undefined ? [src] : [],
    );
    return { plan, home, missing, writes };
  };

  const roomOf = (whose: BoxOwner, writes: readonly string[], limitBytes: number) =>
    rooms.forBox({ rootTaskId: whose.root_task_id, writes, limitBytes });

  const orClosed = <T>(room: BoxDisk, opening: Promise<T>): Promise<T> =>
    opening.catch((error: unknown) => {
      room.close();
      throw error;
    });

  const onHost = (rules: BoxRules, places: Places) => {
    const { needLevel2, ...shown } = hostBinds(rules, places, isThere);
    if (needLevel2.length === 0) return shown;
    throw fault('level_unavailable', `L1 can hide or protect nothing: ${needLevel2.join(', ')}`, {
      hint: 'Ask for L2.',
    });
  };

  const boxOf = (
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
    // Never before its opening is written, however short its life was.
    return opened
      .then(() => store.recordClosed(id, { endedBy, data }))
      .catch((error: unknown) =>
        log.error('the end of a box could not be recorded', { box: id, error }),
      );
  };

  const openNow = async (id: BoxId, body: OpenBoxBody): Promise<OpenBoxState> => {
    const record = boxOf(id, 'tools', body);
    const { plan, home, missing, box, room } = await orRefused(record, async () => {
      assertHeldLevel(body.level);
      const planned = await planBox(id, body, body.level);
      const limitBytes = diskLimit(config, body.rules);
      const own = await roomOf(body, planned.writes, limitBytes);
      options.failpoint('sandboxd.before-open');
      return { ...planned, room: own, box: await orClosed(own, warden.open(planned.plan)) };
    });
    const recorded = store.recordOpened({ ...record, uid: plan.uid });
    void box.ended.then((exit) => {
      held.delete(id);
      room.close();
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
      roots: rootsOf(plan.binds, body.rules),
      clock: options.clock,
      log,
      run: (args) => {
        const limits = { ...plan.limits, graceMs: 0, cpuMilli: 0 };
        return execIn(id, box, { args, env: {}, cwd: '/', limits });
      },
    });
    return { box, view, limits: plan.limits, files, room };
  };

  const begun = (command: SandboxCommand): void => {
    options.failpoint('sandboxd.after-exec');
    void command.ended.then(() => options.failpoint('sandboxd.after-command'));
  };

  const find = async (id: BoxId) => {
    const found = held.get(id);
    // Ended with the warden or with sandboxd: whoever needs it opens it anew.
    if (found === undefined) throw noBox(id);
    return { ...(await found.opened), whose: found.whose };
  };

  const closeEarlier = (runId: string, fence: number): void => {
    for (const { whose, opened } of held.values())
      if (whose.run_id === runId && whose.fence < fence)
        opened.then(({ box }) => box.close()).catch(() => undefined);
  };

  return {
    async open(id, body) {
      closeEarlier(body.run_id, body.fence);
      const found = held.get(id);
      if (found !== undefined) {
        const same = found.whose.run_id === body.run_id && found.whose.fence === body.fence;
        if (!same) throw fault('conflict', `${id} is the box of another run`);
        return (await found.opened).view;
      }
      const opened = inWordsOf(body)(openNow(id, body));
      const entry: BoxEntry = { opened, whose: body };
      held.set(id, entry);
      opened.catch(() => held.get(id) === entry && held.delete(id));
      return (await opened).view;
    },
    async exec(id, body, signal) {
      const { box, view, limits, whose, room } = await find(id);
      const running = room.run(commandLimits(config, body.limits ?? {}, limits), async (own) => {
        options.failpoint('sandboxd.before-exec');
        assertWanted(signal);
        const command = await execIn(id, box, {
          args: resolveProgram(body.argv),
          env: { ...baseEnv(whose.agent, view.home), ...body.env },
          cwd: body.cwd ?? view.workspace,
          limits: own,
        });
        begun(command);
        feed(command, body.stdin_base64);
        return withReason(command, box);
      });
      return inWordsOf(whose)(running);
    },
    async files(id, request, isWrite) {
      const { files, room, whose } = await find(id);
      if (isWrite) await inWordsOf(whose)(room.assertRoom(sizeOf(request)));
      options.failpoint('sandboxd.before-file');
      const answer = await files.perform(request);
      options.failpoint('sandboxd.after-file');
      return answer;
    },
    async close(id) {
      const found = held.get(id);
      if (found === undefined) return false;
      await (await found.opened).box.close();
      return true;
    },
    async runOnce(body, signal) {
      const id = options.newId<BoxId>('box');
      const record = boxOf(id, 'once', body);
      const starting = orRefused(record, async () => {
        assertLevel(body.level);
        const { plan, home, writes } = await planBox(id, body, body.level);
        // What an operator declared for a tool is not counted as the agent's.
        const room = await roomOf(body, writes, 0);
        const limits = commandLimits(config, body.limits ?? {}, plan.limits);
        const started = await room.run(limits, (own) => {
          options.failpoint('sandboxd.before-exec');
          assertWanted(signal);
          return warden.start({
            ...plan,
            args: resolveProgram(body.argv),
            env: { ...baseEnv(body.agent, home), ...body.env },
            cwd: body.cwd ?? (body.level === 'L2' ? WORKSPACE : '/'),
            limits: own,
          });
        });
        return { command: started, uid: plan.uid };
      });
      const { command, uid } = await inWordsOf(body)(starting);
      begun(command);
      const recorded = store.recordOpened({ ...record, uid });
      void command.ended.then((exit) => close(id, exit, recorded));
      await recorded.catch((error: unknown) => {
        command.kill();
        throw error;
      });
      feed(command, body.stdin_base64);
      return command;
    },
    closeEarlier,
    async closeAll() {
      const all = [...held.values()];
      await Promise.allSettled(all.map(async ({ opened }) => (await opened).box.close()));
      return all.length;
    },
    count: () => held.size,
  };
}

/** L1 has the host's own tree: there is nothing of its own to hold open, and no /workspace. */
function assertHeldLevel(level: OpenBoxBody['level']): asserts level is 'L2' {
  assertLevel(level);
  if (level === 'L2') return;
  throw fault(
    'level_unavailable',
    `no box of ${level} is held open, only its single commands run`,
    {
      hint: 'Ask for L2.',
    },
  );
}

/** What file requests may name: what was declared and is there, the workspace before all. */
function rootsOf(binds: readonly Bind[], rules: BoxRules): BoxfsRoot[] {
  const declared = new Set([...rules.read, ...rules.write]);
  const roots = binds.flatMap(({ kind, dst }): BoxfsRoot[] =>
    (kind === 'ro' || kind === 'rw') && declared.has(dst)
      ? [{ path: dst, writable: kind === 'rw' }]
      : [],
  );
  const isWorkspace = ({ path }: BoxfsRoot) => (path === WORKSPACE ? 0 : 1);
  return roots.toSorted((a, b) => isWorkspace(a) - isWorkspace(b));
}

function assertWanted(signal: AbortSignal): void {
  if (signal.aborted) throw fault('canceled', 'whoever asked for the command has gone');
}

const noBox = (id: BoxId) =>
  fault('not_found', `there is no open box ${id}`, {
    hint: 'Open it again.',
    details: { reason: BOX_NOT_OPEN },
  });

/** Where the warden says that the box has ended, or ends for this, nothing was started. */
const execIn = (id: BoxId, box: OpenedBox, command: Parameters<OpenedBox['exec']>[0]) =>
  box.exec(command).catch((error: unknown) => {
    throw error instanceof Fault && error.details?.refused === 'box' ? noBox(id) : error;
  });

/** What a request for files may add, about. */
const sizeOf = (request: FileAsk): number =>
  request.op === 'write' ? Buffer.byteLength(request.content) : 4_096;

/** A command that ended with its box says why the box did, where that is of interest. */
function withReason(command: SandboxCommand, box: OpenedBox): SandboxCommand {
  const ended = command.ended.then(async (exit) => {
    if (exit === 'gone' || exit.endedBy !== 'box') return exit;
    const whole = await box.ended;
    return whole !== 'gone' && whole.endedBy === 'seal' ? { ...exit, endedBy: 'seal' } : exit;
  });
  return { ...command, ended: ended as SandboxCommand['ended'] };
}

function feed(command: SandboxCommand, stdinBase64: string | undefined): void {
  if (stdinBase64 !== undefined) void command.stdin(Buffer.from(stdinBase64, 'base64'));
  command.stdinEnd();
}
