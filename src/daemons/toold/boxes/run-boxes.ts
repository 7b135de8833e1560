// Opens each run's box at sandboxd when a tool first needs it, under the agent's current policy and
// with egress where policy allows any. When the rules change, the box is closed and reopened: the
// kernel never allows more than policy does.
import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import type { Log } from '../../../platform/log.ts';
import { modelEnvironment } from '../../../policy/box-models.ts';
import { type AgentBoxRules, isNarrower } from '../../../policy/box-rules.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import type { BoxId, CallId, RunId } from '../../../wire/primitives.ts';
import type { FileRequestInput, FileResponseTo } from '../../../wire/sandboxd/files.ts';
import type { ProgramCommand } from '../../../wire/sandboxd/programs.ts';
import { BOX_NOT_OPEN, type OpenBox, type OpenBoxBody } from '../../../wire/sandboxd.ts';
import type { CommandExecutor } from '../command-tools/directory.ts';
import type { ApprovedHosts } from '../permission/approved-hosts.ts';
import type { Marks } from '../permission/marks.ts';
import type { ToolRun } from '../runs.ts';
import { type Box, type ExecResult, notStartedFault } from '../tools/box.ts';
import type { EgressdClient } from '../tools/http.ts';
import { peerOptions } from '../tools/tool.ts';
import {
  buildBaseEnv,
  EXEC_GRACE_MS,
  endedByPolicy,
  type SandboxdClient,
  toCommand,
  toExecResult,
  toWorkspace,
} from './commands.ts';
import type { EgressSessions } from './egress-sessions.ts';
import { makeHostExecutor } from './host-executor.ts';
import { withDenials } from './network-denials.ts';
import { writeHome } from './program-home.ts';
import { makeRulesWatch, type WatchedCommand } from './rules-watch.ts';

/** A workspace may have to be copied first. */
const openOptions = { deadlineMs: 600_000 } as const;

export type RunBoxes = {
  /** A path under an `ask` rule is open only in a box for calls that were decided on it. */
  boxFor(run: ToolRun, call: BoxCall): Promise<Box>;
  /** Opens egress alone, for a tool that fetches without a box. Returns the network rules. */
  openEgress(run: ToolRun): Promise<AgentBoxRules['network']>;
  /** Returns the rules of the run's box. */
  loadRules(run: ToolRun): Promise<AgentBoxRules>;
  /** Opens the box of a run whose process is a person's program, and prepares the program there. */
  openProgram(run: ToolRun, command: ProgramCommand): Promise<OpenedProgram>;
  /** Runs one command of a declared tool in its own sandbox. */
  host: CommandExecutor;
  /** Applies a new mark to the run's egress at once. */
  narrow(run: ToolRun): Promise<void>;
  close(run: ToolRun): Promise<void>;
};

export type OpenedProgram = { box_id: BoxId; epoch: string; token: string };
type BoxCall = { callId: CallId; signal: AbortSignal; touched: readonly string[] };
type OpenedBox = {
  id: BoxId;
  rules: AgentBoxRules;
  plan: string;
  view: OpenBox;
  env: Record<string, string>;
  hasEgress: boolean;
};
type BoxLease = {
  key: string;
  touched: readonly string[];
  runId: string;
  fence: number;
  opened: Promise<OpenedBox>;
  /** The number of commands in it now. */
  running: number;
  /** True once policy became narrower and its commands were ended. */
  isEnded: boolean;
};

export function makeRunBoxes(options: {
  sandboxd: SandboxdClient;
  egressd: Pick<EgressdClient, 'getEgress'>;
  ways: Pick<EgressSessions, 'open' | 'has' | 'close'>;
  policy: Pick<PolicySource, 'planAgentBox' | 'planDeclaredPaths'>;
  grants: Pick<ApprovedHosts, 'hostsFor'>;
  markProgram: Marks['markProgram'];
  newBoxId: () => BoxId;
  runOf: (runId: RunId) => ToolRun;
  clock: Clock;
  log: Log;
}): RunBoxes {
  const { sandboxd, egressd, ways, policy, log } = options;
  const watch = makeRulesWatch(options);
  const leases = new Map<string, BoxLease>();
  /** Opened under earlier rules that allowed no more; closed when their commands have ended. */
  const closing = new Set<BoxLease>();

  const loadRules = async (
    run: ToolRun,
    touched: readonly string[] = [],
  ): Promise<AgentBoxRules> => {
    const granted = [...(await options.grants.hostsFor(run)), ...run.chosenHosts];
    return policy.planAgentBox(run.agent, granted, touched);
  };

  const open = async (
    run: ToolRun,
    rules: AgentBoxRules,
    kind: Pick<OpenBoxBody, 'is_program' | 'programs'> = {},
  ): Promise<OpenedBox> => {
    const id = options.newBoxId();
    const { read, write, deny, resources } = rules;
    const egressSocket = rules.network.mode === 'none' ? null : await ways.open(run, rules);
    const body = {
      run_id: run.runId,
      fence: run.fence,
      agent: run.agent,
      task_id: run.taskId,
      root_task_id: run.rootTaskId,
      level: 'L2' as const,
      rules: { read, write, deny, resources: toResources(resources) },
      network: { egress_socket: egressSocket },
      ...toWorkspace(run),
      ...(run.home === undefined ? {} : { home_id: run.home }),
      ...kind,
    };
    const view = await sandboxd.openBox({ params: { id }, body }, openOptions);
    if (view.missing.length > 0)
      log.warn('declared paths not found on this host', {
        agent: run.agent,
        missing: view.missing,
      });
    const hasEgress = egressSocket !== null;
    return {
      id,
      view,
      hasEgress,
      env: buildBaseEnv(run, { hasEgress }),
      rules,
      plan: fingerprintRules(rules),
    };
  };

  const closeBox = async ({ opened }: BoxLease): Promise<void> => {
    const found = await opened.catch(() => undefined);
    if (found === undefined) return;
    await sandboxd.closeBox({ params: { id: found.id } }, peerOptions).catch((error: unknown) => {
      if (!isFault(error, 'not_found')) log.warn('closing a box failed', { box: found.id, error });
    });
  };

  const endBox = (entry: BoxLease): Promise<void> => {
    entry.isEnded = true;
    closing.delete(entry);
    return closeBox(entry);
  };

  /** While commands run, narrows the egress when policy changes, or ends them all. */
  const watchBox = (run: ToolRun, entry: BoxLease, box: OpenedBox): WatchedCommand => {
    let network = JSON.stringify(box.rules.network);
    return {
      async isNarrower() {
        const now = await loadRules(run, entry.touched);
        if (box.hasEgress && network !== JSON.stringify(now.network)) {
          const isUpdated = await ways.open(run, now).then(
            () => true,
            () => false,
          );
          if (!isUpdated) return true;
          network = JSON.stringify(now.network);
        }
        return isNarrower(now, box.rules);
      },
      end() {
        log.warn('closing a box because policy became narrower', { run_id: run.runId });
        dropLease(entry);
        void endBox(entry);
      },
    };
  };

  const execIn = async (
    run: ToolRun,
    entry: BoxLease,
    box: OpenedBox,
    work: () => Promise<ExecResult>,
  ) => {
    entry.running++;
    try {
      const done = await watch.during(watchBox(run, entry, box), work);
      return entry.isEnded && done.endedBy !== null ? endedByPolicy(done) : done;
    } catch (error) {
      // In a box that was closed before the command began, nothing was started.
      if (!entry.isEnded || isBoxClosed(error)) throw error;
      return endedByPolicy();
    } finally {
      entry.running--;
      if (entry.running === 0 && closing.delete(entry)) void closeBox(entry);
    }
  };

  const dropLease = (entry: BoxLease): void => {
    if (leases.get(entry.key) === entry) leases.delete(entry.key);
  };

  const acquireBox = async (
    run: ToolRun,
    call: BoxCall,
  ): Promise<{ entry: BoxLease; box: OpenedBox }> => {
    const { signal, touched } = call;
    const rules = await loadRules(run, touched);
    const key = [run.runId, ...rules.opened].join(' ');
    const found = leases.get(key);
    if (found !== undefined) {
      const box = await found.opened;
      const isSame = box.plan === fingerprintRules(rules);
      if (found.fence === run.fence && isSame) return { entry: found, box };
      dropLease(found);
      if (found.fence === run.fence && found.running > 0 && !isNarrower(rules, box.rules))
        closing.add(found);
      else await endBox(found);
    }
    // Another call may have opened it while this one waited.
    const again = leases.get(key);
    if (again !== undefined) return { entry: again, box: await again.opened };
    // The dismissal has already closed the run's boxes, and would not close this one.
    if (signal.aborted) throw fault('canceled', `${run.runId} was dismissed`);
    const opened = open(run, rules);
    const entry: BoxLease = {
      key,
      touched,
      runId: run.runId,
      fence: run.fence,
      opened,
      running: 0,
      isEnded: false,
    };
    leases.set(key, entry);
    entry.opened.catch(() => dropLease(entry));
    return { entry, box: await entry.opened };
  };

  /** When a box ended with its warden, nothing was done; the next call opens another. */
  const withBox = async <T>(entry: BoxLease, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (!isBoxClosed(error)) throw error;
      dropLease(entry);
      throw fault(
        'unavailable',
        `the box of ${entry.runId} has ended; the next call opens another`,
        {
          cause: error,
        },
      );
    }
  };

  return {
    async boxFor(run, call) {
      const { callId, signal } = call;
      const { entry, box } = await acquireBox(run, call);
      const params = { id: box.id };
      return {
        roots: { workspace: box.view.workspace, home: box.view.home },
        files: {
          perform: <R extends FileRequestInput>(request: R) =>
            withBox(entry, async () => {
              if (signal.aborted) throw notStartedFault();
              const asked = { params, body: request as FileRequestInput as never };
              return (await sandboxd.boxFiles(asked, {
                ...peerOptions,
                signal,
              })) as FileResponseTo<R>;
            }),
        },
        exec: (request) =>
          withBox(entry, async () => {
            const body = { call_id: callId, collect: true, ...toCommand(request, box.env) };
            const deadlineMs = (request.wallMs ?? 600_000) + EXEC_GRACE_MS;
            const asked = { deadlineMs, signal: request.signal ?? signal };
            const exec = async () => {
              if (asked.signal.aborted) throw notStartedFault();
              return sandboxd.execBox({ params, body }, asked);
            };
            return execIn(run, entry, box, async () => {
              if (!box.hasEgress) return toExecResult(await exec(), []);
              const { done, denied } = await withDenials(egressd, run.runId, exec);
              return toExecResult(done, denied);
            });
          }),
      };
    },

    async openProgram(run, command) {
      await options.markProgram(run);
      const { programs = [], home_files: homeFiles = [], ...started } = command;
      const opened = open(run, await loadRules(run), { is_program: true, programs });
      const entry: BoxLease = {
        key: `${run.runId} program`,
        touched: [],
        runId: run.runId,
        fence: run.fence,
        opened,
        running: 1,
        isEnded: false,
      };
      leases.set(entry.key, entry);
      try {
        const box = await opened;
        // The dismissal has already closed the run's boxes, and would not close this one.
        if (run.ended !== undefined) throw run.ended;
        await writeHome(sandboxd, box, homeFiles);
        const env = { ...modelEnvironment(), ...box.env, ...command.env };
        const asked = { params: { id: box.id }, body: { ...started, env } };
        const ready = await sandboxd.startProgram(asked, peerOptions);
        const watched = watchBox(run, entry, box);
        const isNarrower = async (): Promise<boolean> => {
          if (box.hasEgress) await options.markProgram(run);
          return watched.isNarrower();
        };
        watch.until({ ...watched, isNarrower }, () => leases.get(entry.key) !== entry);
        return { box_id: box.id, ...ready };
      } catch (error) {
        dropLease(entry);
        await closeBox(entry);
        throw error;
      }
    },

    host: makeHostExecutor({
      sandboxd,
      policy,
      watch,
      egressd,
      runOf: options.runOf,
      async openEgressSocket(runId) {
        const run = options.runOf(runId);
        const rules = await loadRules(run);
        return rules.network.mode === 'none' ? null : ways.open(run, rules);
      },
    }),

    loadRules: (run) => loadRules(run),

    async openEgress(run) {
      const rules = await loadRules(run);
      // Also where the box has no egress: a single request may be allowed by itself.
      await ways.open(run, rules);
      return rules.network;
    },

    async narrow(run) {
      if (ways.has(run)) await ways.open(run, await loadRules(run));
    },

    async close(run) {
      for (const entry of [...leases.values(), ...closing])
        if (entry.runId === run.runId && entry.fence <= run.fence) {
          dropLease(entry);
          closing.delete(entry);
          await closeBox(entry);
        }
      await ways.close(run);
    },
  };
}

/** Checks the reason, because a missing file is `not_found` too. */
const isBoxClosed = (error: unknown): boolean =>
  isFault(error, 'not_found') && error.details?.reason === BOX_NOT_OPEN;

/** Covers all that a box is made from. Approved hosts are left out: only egressd enforces them. */
function fingerprintRules({ network, version: _, asked: __, ...rules }: AgentBoxRules): string {
  return JSON.stringify({ ...rules, network: { mode: network.mode, allow: network.allow } });
}

function toResources({ cpu, memoryBytes, pids, diskBytes }: AgentBoxRules['resources']) {
  return {
    ...(cpu === null ? {} : { cpu }),
    ...(memoryBytes === null ? {} : { memory_bytes: memoryBytes }),
    ...(pids === null ? {} : { pids }),
    ...(diskBytes === null ? {} : { disk_bytes: diskBytes }),
  };
}
