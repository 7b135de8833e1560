// A box without confinement, for tests of tools: the real boxfs on directories of the test, and
// commands as plain processes. Confinement is tested against the warden elsewhere.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { boxfsArgs, openBoxfs } from '../../src/daemons/sandboxd/adapters/boxfs-client.ts';
import type { Box, ExecRequest, ExecResult } from '../../src/daemons/toold/tools/box.ts';
import type { Basis, Effect, Tool, ToolContext } from '../../src/daemons/toold/tools/tool.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { deriveId } from '../../src/platform/ids.ts';
import type { CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { startBoxfs } from './boxfs.ts';

export type TestBox = {
  box: Box;
  context: ToolContext;
  workspace: string;
  outside: string;
  home: string;
  logs: string;
  /** Every command that was started, in order. */
  commands: ExecRequest[];
  /** Calls a tool as toold would, after its input schema. */
  call(tool: Tool | undefined, input: object): Promise<Effect>;
  /** The preview for a person, and the state that it is based on. */
  show(tool: Tool | undefined, input: object): Promise<{ text: string; basis?: Basis }>;
  /** The result, or the error as a rejection. */
  result(tool: Tool | undefined, input: object): Promise<Record<string, unknown>>;
  close(): Promise<void>;
};

export async function openTestBox(options: { agent?: string } = {}): Promise<TestBox> {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'test-box-')));
  const [workspace, home] = [join(top, 'workspace'), join(top, 'home')];
  const [outside, logs] = [join(top, 'outside'), join(top, 'logs')];
  for (const dir of [workspace, home, outside, logs]) mkdirSync(dir);
  const roots = [
    { path: workspace, writable: true },
    { path: home, writable: true },
    { path: logs, writable: false },
  ];
  const started = startBoxfs(boxfsArgs(roots));
  const client = await openBoxfs({ stream: started.stream, roots, clock: systemClock() });
  const commands: ExecRequest[] = [];
  const box: Box = {
    roots: { workspace, home },
    files: client,
    exec(request) {
      commands.push(request);
      return runPlain(request);
    },
  };
  const context: ToolContext = {
    runId: deriveId<RunId>('run', 'test-box'),
    fence: 1,
    callId: deriveId<CallId>('call', 'test-box'),
    signal: new AbortController().signal,
    agent: options.agent ?? 'coder',
    taskId: deriveId<TaskId>('task', 'test-box'),
    rootTaskId: deriveId<TaskId>('task', 'test-box'),
    box: async () => box,
  };
  const call = async (tool: Tool | undefined, input: object) => {
    if (tool === undefined) throw new Error('there is no such tool');
    return tool.perform(tool.input.parse(input), context);
  };
  const show: TestBox['show'] = async (tool, input) => {
    const shown = await tool!.preview!(tool!.input.parse(input), context);
    return typeof shown === 'string' ? { text: shown } : shown;
  };
  return {
    show,
    box,
    context,
    workspace,
    outside,
    home,
    logs,
    commands,
    call,
    async result(tool, input) {
      const effect = await call(tool, input);
      if (!('result' in effect))
        throw Object.assign(new Error(), 'error' in effect && effect.error);
      return tool!.output.parse(effect.result);
    },
    async close() {
      client.close();
      await started.stop();
      rmSync(top, { recursive: true, force: true });
    },
  };
}

function runPlain(request: ExecRequest): Promise<ExecResult> {
  const { argv, cwd, env, stdin, wallMs = 30_000, outputBytesMax = 1_000_000 } = request;
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const child = spawn(argv[0]!, argv.slice(1), { cwd, env, detached: true });
    const [out, err]: [Buffer[], Buffer[]] = [[], []];
    let size = 0;
    let endedBy: ExecResult['endedBy'] = null;
    const end = (why: ExecResult['endedBy']): void => {
      endedBy ??= why;
      try {
        process.kill(-child.pid!, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    };
    const timer = setTimeout(() => end('wall'), wallMs);
    const take = (into: Buffer[]) => (bytes: Buffer) => {
      const room = Math.max(0, outputBytesMax - size);
      into.push(bytes.subarray(0, room));
      size += bytes.length;
      if (size > outputBytesMax) end('output');
    };
    child.stdout.on('data', take(out));
    child.stderr.on('data', take(err));
    child.stdin.on('error', () => {});
    child.stdin.end(stdin);
    child.on('error', reject);
    request.signal?.addEventListener('abort', () => end('killed'), { once: true });
    child.on('close', (exitCode, signal) => {
      clearTimeout(timer);
      resolve({
        exitCode,
        signal,
        endedBy,
        stdout: Buffer.concat(out),
        stderr: Buffer.concat(err),
        stdoutTruncated: endedBy === 'output',
        stderrTruncated: endedBy === 'output',
        wallMs: performance.now() - began,
        networkDenied: [],
      });
    });
  });
}
