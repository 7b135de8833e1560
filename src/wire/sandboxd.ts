// sandboxd's contract: runners, tool boxes and their commands, and the sandbox features of this
// host. Paths are those inside a box.
import * as z from 'zod';
import { liveRoute } from './live.ts';
import { AgentName, BoxId, CallId, pageQuery, RunId, TaskId, Timestamp } from './primitives.ts';
import { route, routes } from './route.ts';
import { FileAnswer, FileRequest } from './sandboxd/files.ts';
import { layerRoutes, WorkspaceMode } from './sandboxd/layers.ts';
import { liveRoutes } from './sandboxd/live.ts';
import { HomeId, HostPaths, programRoutes } from './sandboxd/programs.ts';
import { treeFileRoutes } from './sandboxd/tree-files.ts';

export const SandboxLevel = z.enum(['L0', 'L1', 'L2', 'L3', 'L4']);
export type SandboxLevel = z.infer<typeof SandboxLevel>;

/** `details.reason` of the `not_found` fault for a box that has ended or never existed. */
export const BOX_NOT_OPEN = 'box_not_open';

/**
 * The cause that ended a command early; null when it exited by itself. `lost`: its box's init died
 * for an unknown reason.
 */
export const EndedBy = z.enum([
  'wall',
  'cpu',
  'memory',
  'output',
  'pids',
  'disk',
  'halt',
  'killed',
  'box',
  /** A mount that hid or protected a path in its box was removed from outside. */
  'seal',
  'warden',
  'lost',
]);
export type EndedBy = z.infer<typeof EndedBy>;

const BoxPath = z
  .string()
  .regex(/^\/[^\0]*$/, 'must be an absolute path')
  .max(4_095);

/** The paths that policy opens in a box. `deny` takes precedence; other paths do not exist. */
export const BoxRules = z.strictObject({
  read: z.array(BoxPath).max(256),
  write: z.array(BoxPath).max(256),
  deny: z.array(BoxPath).max(256),
  resources: z
    .strictObject({
      memory_bytes: z.int().min(1_048_576).optional(),
      pids: z.int().min(1).max(4_194_304).optional(),
      cpu_ms: z.int().min(1).optional(),
      /** Number of CPUs: 0.5 is half of one. */
      cpu: z.number().positive().max(1_024).optional(),
      /** Total size of the files it may write, minus those from before its task tree. */
      disk_bytes: z.int().min(1_048_576).optional(),
    })
    .optional(),
});
export type BoxRules = z.infer<typeof BoxRules>;

/** Limits of one command, within those of its box. */
export const CommandLimits = z.strictObject({
  wall_ms: z.int().min(1).max(86_400_000).optional(),
  cpu_ms: z.int().min(1).max(86_400_000).optional(),
  memory_bytes: z.int().min(1_048_576).optional(),
  pids: z.int().min(1).max(4_194_304).optional(),
  output_bytes: z.int().min(1).max(67_108_864).optional(),
});
export type CommandLimits = z.infer<typeof CommandLimits>;

const boxOwner = {
  run_id: RunId,
  fence: z.int().positive(),
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
};

const boxWorkspace = {
  /** The person's directory that is the task tree's workspace. */
  workspace_path: z.string().max(4_095).optional(),
  /** How a person's directory is used; absent, as for tasks of earlier versions: `live`. */
  workspace_mode: WorkspaceMode.optional(),
  /** The subtask whose layer it is; absent: that of the tree. */
  layer_task_id: TaskId.optional(),
};

export const OpenBoxBody = z.strictObject({
  ...boxOwner,
  ...boxWorkspace,
  level: SandboxLevel,
  rules: BoxRules,
  network: z.strictObject({
    /** The socket behind 127.0.0.1:3128 in the box; null: no egress. */
    egress_socket: z.string().max(100).nullable(),
  }),
  /** The box is for a person's program. */
  is_program: z.literal(true).optional(),
  /** The host paths of that program. */
  programs: HostPaths.optional(),
  /** Absent: the home of the task tree. */
  home_id: HomeId.optional(),
});
export type OpenBoxBody = z.infer<typeof OpenBoxBody>;

export const OpenBox = z.object({
  box_id: BoxId,
  level: SandboxLevel,
  workspace: z.string(),
  home: z.string(),
  uid: z.int(),
  gid: z.int(),
  /** Declared paths that do not exist on this host, and so not in the box. */
  missing: z.array(z.string()),
});
export type OpenBox = z.infer<typeof OpenBox>;

const command = {
  argv: z.array(z.string().max(131_072)).min(1).max(1_023),
  cwd: BoxPath.optional(),
  env: z.record(z.string().regex(/^[A-Za-z_]\w*$/), z.string().max(131_072)).optional(),
  stdin_base64: z.base64().max(8_000_000).optional(),
  limits: CommandLimits.optional(),
  /** Returns one response at the end instead of a stream. */
  collect: z.boolean().optional(),
  /** The tool under whose name people who watch the task see the output as it comes. */
  live_as: z.string().min(1).max(128).optional(),
};

export const ExecBody = z.strictObject({ call_id: CallId, ...command });
export type ExecBody = z.infer<typeof ExecBody>;

export const RunOnceBody = z.strictObject({
  ...boxOwner,
  ...boxWorkspace,
  call_id: CallId,
  level: SandboxLevel,
  rules: BoxRules,
  network: z.strictObject({ egress_socket: z.string().max(100).nullable() }),
  ...command,
});
export type RunOnceBody = z.infer<typeof RunOnceBody>;

export const Usage = z.object({
  wall_ms: z.int(),
  cpu_ms: z.int(),
  memory_peak_bytes: z.int(),
  stdout_bytes: z.int(),
  stderr_bytes: z.int(),
});

export const CommandEnd = z.object({
  exit_code: z.int().nullable(),
  signal: z.int().nullable(),
  ended_by: EndedBy.nullable(),
  /** Further information for the caller. */
  note: z.string().optional(),
  usage: Usage,
});
export type CommandEnd = z.infer<typeof CommandEnd>;

/** One line of the stream. The last line is the end, or a fault. */
export const CommandEvent = z.union([
  z.object({ stdout: z.base64() }),
  z.object({ stderr: z.base64() }),
  z.object({ end: CommandEnd }),
  z.object({ error: z.record(z.string(), z.unknown()) }),
]);
export type CommandEvent = z.infer<typeof CommandEvent>;

export const Collected = CommandEnd.extend({
  stdout_base64: z.string(),
  stderr_base64: z.string(),
});
export type Collected = z.infer<typeof Collected>;

const runnerKey = {
  fence: z.coerce.number().int().positive(),
  mode: z.enum(['live', 'replay']).optional(),
};

export const StartRunnerBody = z.strictObject({ ...boxOwner, mode: z.enum(['live', 'replay']) });
export type StartRunnerBody = z.infer<typeof StartRunnerBody>;

export const RunnerEnd = z.object({
  code: z.int().nullable(),
  signal: z.int().nullable(),
  ended_by: EndedBy.nullable(),
  stderr_tail: z.string(),
});
export type RunnerEnd = z.infer<typeof RunnerEnd>;

export const RunnerEnded = z.object({
  seq: z.int().positive(),
  run_id: RunId,
  fence: z.int(),
  mode: z.enum(['live', 'replay']),
  end: RunnerEnd,
});
export type RunnerEnded = z.infer<typeof RunnerEnded>;

export const BoxView = z.object({
  id: BoxId,
  kind: z.enum(['runner', 'tools', 'once', 'program']),
  level: SandboxLevel,
  run_id: RunId,
  fence: z.int(),
  agent: z.string(),
  task_id: TaskId,
  uid: z.int(),
  opened_at: Timestamp,
  closed_at: Timestamp.nullable(),
  ended_by: z.string().nullable(),
});
export type BoxView = z.infer<typeof BoxView>;

const Probe = z.object({
  name: z.string(),
  works: z.boolean(),
  /** The finding, or why it does not work. */
  detail: z.string(),
  /** The command that fixes it. */
  fix: z.string().nullable(),
});
export type Probe = z.infer<typeof Probe>;

export const FeaturesView = z.object({
  /** `root`, or `user` with its own user namespaces. */
  warden: z.object({ version: z.int(), mode: z.enum(['root', 'user']) }),
  identity: z.enum(['users', 'dynamic', 'single']),
  levels: z.array(Probe),
  features: z.array(Probe),
});
export type FeaturesView = z.infer<typeof FeaturesView>;

const RangeUse = z.object({ first: z.int(), last: z.int(), used: z.int() });

const boxParam = z.strictObject({ id: BoxId });
const runParam = z.strictObject({ id: RunId });

export const sandboxdRoutes = routes({
  features: route({
    method: 'GET',
    path: '/v1/sandboxes/features',
    callers: ['operator'],
    output: FeaturesView,
  }),
  watchLive: liveRoute('/v1/sandboxes/live'),
  listBoxes: route({
    method: 'GET',
    path: '/v1/sandboxes',
    callers: ['operator'],
    query: z.strictObject({ ...pageQuery(100), open: z.enum(['true', 'false']).optional() }),
    output: z.object({ boxes: z.array(BoxView), cursor: z.string().nullable() }),
  }),
  /** Returns how agents map to users on this host. Unlike `features` it probes nothing. */
  identity: route({
    method: 'GET',
    path: '/v1/sandboxes/identity',
    callers: ['operator'],
    output: z.object({
      identity: FeaturesView.shape.identity,
      uid: z.int().nullable(),
      /** Ids that cannot be assigned now: uids for ever, gids until their tree is released. */
      ranges: z.object({ uids: RangeUse, gids: RangeUse }),
    }),
  }),
  /** Fails like the first box of a task in this directory would. */
  checkWorkspace: route({
    method: 'POST',
    path: '/v1/workspaces/check',
    callers: ['agentd'],
    body: z.strictObject({
      path: z.string().min(1).max(4_095),
      mode: WorkspaceMode.optional(),
    }),
    output: z.object({ path: z.string() }),
  }),
  /**
   * Forgets a task tree, when its tasks and directories are deleted, and frees its group. While
   * files with the group may exist elsewhere it is not freed, and `reason` names them; sandboxd
   * tries again later.
   */
  releaseWorkspace: route({
    method: 'DELETE',
    path: '/v1/workspaces/{id}',
    callers: ['agentd'],
    params: z.strictObject({ id: TaskId }),
    output: z.object({ freed: z.boolean(), reason: z.string().nullable() }),
  }),
  ...treeFileRoutes,
  ...layerRoutes,
  ...liveRoutes,
  ...programRoutes,
  startRunner: route({
    method: 'POST',
    path: '/v1/runners',
    callers: ['agentd'],
    body: StartRunnerBody,
    output: z.object({
      pid: z.int(),
      /** Identifies this sandboxd process; a runner never outlives it. */
      epoch: z.string(),
      /** The daemons' sockets, as paths inside the runner's box. */
      sockets: z.object({ agentd: z.string(), toold: z.string(), modeld: z.string() }),
    }),
  }),
  /**
   * Long-polls for ended runners; `after` acknowledges earlier ones. Runners are ended when agentd
   * stops polling.
   */
  runnerEnds: route({
    method: 'GET',
    path: '/v1/runners/ends',
    callers: ['agentd'],
    query: z.strictObject({
      after: z.coerce.number().int().nonnegative(),
      epoch: z.string().max(64).optional(),
    }),
    output: z.object({ epoch: z.string(), ends: z.array(RunnerEnded) }),
  }),
  tellRunner: route({
    method: 'POST',
    path: '/v1/runners/{id}/tell',
    callers: ['agentd'],
    params: runParam,
    query: z.strictObject(runnerKey),
    body: z.strictObject({ line: z.string().min(1).max(16_384) }),
    output: z.object({ told: z.boolean() }),
  }),
  endRunner: route({
    method: 'DELETE',
    path: '/v1/runners/{id}',
    callers: ['agentd'],
    params: runParam,
    query: z.strictObject(runnerKey),
    output: z.object({ ended: z.boolean() }),
  }),
  endRunners: route({
    method: 'DELETE',
    path: '/v1/runners',
    callers: ['agentd'],
    output: z.object({ ended: z.int() }),
  }),
  openBox: route({
    method: 'PUT',
    path: '/v1/boxes/{id}',
    callers: ['toold'],
    params: boxParam,
    body: OpenBoxBody,
    output: OpenBox,
    // A workspace may have to be copied first.
    streams: true,
  }),
  execBox: route({
    method: 'POST',
    path: '/v1/boxes/{id}/exec',
    callers: ['toold'],
    params: boxParam,
    body: ExecBody,
    output: Collected,
    streams: true,
    bodySizeBytesMax: 10_000_000,
  }),
  boxFiles: route({
    method: 'POST',
    path: '/v1/boxes/{id}/files',
    callers: ['toold'],
    params: boxParam,
    body: FileRequest,
    output: FileAnswer,
    bodySizeBytesMax: 12_000_000,
  }),
  closeBox: route({
    method: 'DELETE',
    path: '/v1/boxes/{id}',
    callers: ['toold'],
    params: boxParam,
    output: z.object({ closed: z.boolean() }),
  }),
  /** Called when toold starts: it no longer knows the boxes that it opened before. */
  closeBoxes: route({
    method: 'DELETE',
    path: '/v1/boxes',
    callers: ['toold'],
    output: z.object({ closed: z.int() }),
  }),
  runOnce: route({
    method: 'POST',
    path: '/v1/sandboxes/run',
    callers: ['toold'],
    body: RunOnceBody,
    output: Collected,
    streams: true,
    bodySizeBytesMax: 10_000_000,
  }),
});
