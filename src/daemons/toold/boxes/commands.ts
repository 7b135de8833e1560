// Converts commands to sandboxd's format, and its results to what tools read. Pure.
import type { Client } from '../../../platform/link.ts';
import { proxyEnvironment } from '../../../policy/egress.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { WorkspaceMode } from '../../../wire/sandboxd/layers.ts';
import type { Collected, sandboxdRoutes } from '../../../wire/sandboxd.ts';
import { findOwnPlace, type ToolRun } from '../runs.ts';
import type { ExecRequest, ExecResult, NetworkDenied } from '../tools/box.ts';
import { buildGitIdentity } from '../tools/git/identity.ts';
import type { ToolContext } from '../tools/tool.ts';

export type SandboxdClient = Client<typeof sandboxdRoutes>;

/** Added to a command's time limit when waiting for its end. */
export const EXEC_GRACE_MS = 10_000;

/** The environment of every command of an agent; its tool adds to it. */
export const buildBaseEnv = (
  caller: Pick<ToolContext, 'agent' | 'persona'>,
  { hasEgress }: { hasEgress: boolean },
): Record<string, string> => ({
  ...buildGitIdentity(caller),
  ...(hasEgress ? proxyEnvironment() : {}),
});

export function toCommand(request: ExecRequest, env: Record<string, string>) {
  const { argv, cwd, stdin, wallMs, outputBytesMax, liveAs } = request;
  return {
    argv: [...argv],
    env: { ...env, ...request.env },
    ...(cwd === undefined ? {} : { cwd }),
    ...(stdin === undefined ? {} : { stdin_base64: stdin.toString('base64') }),
    ...(liveAs === undefined ? {} : { live_as: liveAs }),
    limits: {
      ...(wallMs === undefined ? {} : { wall_ms: wallMs }),
      ...(outputBytesMax === undefined ? {} : { output_bytes: outputBytesMax }),
    },
  };
}

/** The person's directory that the run's task tree works in, if there is one. */
export function toWorkspace(run: Pick<ToolRun, 'workspace' | 'isLayered' | 'layers'>) {
  const { workspace, isLayered, layers } = run;
  if (workspace === null) return {};
  const mode: WorkspaceMode = isLayered ? 'layer' : 'live';
  const own = layers.length > 1 ? { layer_task_id: findOwnPlace(run) as TaskId } : {};
  return { workspace_path: workspace, workspace_mode: mode, ...own };
}

/** Without `done`, its output was lost. */
export function endedByPolicy(done?: ExecResult): ExecResult {
  const nothing = Buffer.alloc(0);
  return {
    exitCode: null,
    signal: null,
    stdout: nothing,
    stderr: nothing,
    wallMs: 0,
    stdoutTruncated: true,
    stderrTruncated: true,
    networkDenied: [],
    ...done,
    endedBy: 'policy',
  };
}

export function toExecResult(done: Collected, networkDenied: readonly NetworkDenied[]): ExecResult {
  const truncated = done.ended_by === 'output';
  return {
    exitCode: done.exit_code,
    signal: done.signal === null ? null : String(done.signal),
    endedBy: done.ended_by,
    ...(done.note === undefined ? {} : { note: done.note }),
    stdout: Buffer.from(done.stdout_base64, 'base64'),
    stderr: Buffer.from(done.stderr_base64, 'base64'),
    stdoutTruncated: truncated,
    stderrTruncated: truncated,
    wallMs: done.usage.wall_ms,
    networkDenied,
  };
}
