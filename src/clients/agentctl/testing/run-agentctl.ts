// Test helper: runs agentctl as a child process, as people and scripts start it.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export type AgentctlResult = { code: number | null; stdout: string; stderr: string };
export type RunAgentctlOptions = {
  state?: string;
  env?: Record<string, string>;
  stdin?: string;
  cwd?: string;
  /** Runs another copy of the program. */
  main?: string;
  /** Runs on a terminal of its own, so that standard output is what a screen would get. */
  onTerminal?: boolean;
  /** Called with the output so far; returns a signal to end the program with. */
  watch?: (ran: Omit<AgentctlResult, 'code'>) => NodeJS.Signals | undefined;
};

export const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));

export function agentctl(
  args: readonly string[],
  options: RunAgentctlOptions = {},
): Promise<AgentctlResult> {
  const [program, ...argv] = toCommand([options.main ?? MAIN, ...args], options);
  const child = spawn(program!, argv, {
    cwd: options.cwd,
    env: {
      ...(options.onTerminal === true ? { SHELL: '/bin/sh', TERM: 'xterm' } : {}),
      HOME: '/nonexistent',
      ...(options.state === undefined ? {} : { AGENTD_STATE: options.state }),
      ...options.env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ran = { stdout: '', stderr: '' };
  let signaled = false;
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      ran[name] += text;
      const signal = signaled ? undefined : options.watch?.(ran);
      if (signal !== undefined) signaled = child.kill(signal);
    });
  }
  child.stdin.on('error', () => undefined).end(options.stdin ?? '');
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...ran }));
  });
}

function toCommand(args: readonly string[], { onTerminal }: RunAgentctlOptions): string[] {
  const command = [process.execPath, ...args];
  if (onTerminal !== true) return command;
  const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  const size = 'stty cols 80 rows 24';
  return ['/usr/bin/script', '-qefc', `${size}; exec ${quoted}`, '/dev/null'];
}

/** Returns the document printed with --json. */
export function documentOf<T = Record<string, unknown>>(ran: AgentctlResult): T {
  const lines = ran.stdout.trim().split('\n');
  if (lines.length !== 1 || lines[0] === '')
    throw new Error(`not one document: ${ran.stdout}\n${ran.stderr}`);
  return JSON.parse(lines[0]!) as T;
}
