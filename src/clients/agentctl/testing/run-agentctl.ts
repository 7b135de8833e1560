// For tests: agentctl as a child process, as people and scripts start it.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export type Ran = { code: number | null; stdout: string; stderr: string };
export type RunOptions = {
  state?: string;
  env?: Record<string, string>;
  stdin?: string;
  /** Another copy of the program. */
  main?: string;
  /** Called with what has been printed so far; may end the program with the signal it gives. */
  watch?: (ran: Omit<Ran, 'code'>) => NodeJS.Signals | undefined;
};

export const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));

export function agentctl(words: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const child = spawn(process.execPath, [options.main ?? MAIN, ...words], {
    env: {
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

/** What it printed with --json. */
export function documentOf<T = Record<string, unknown>>(ran: Ran): T {
  const lines = ran.stdout.trim().split('\n');
  if (lines.length !== 1 || lines[0] === '')
    throw new Error(`not one document: ${ran.stdout}\n${ran.stderr}`);
  return JSON.parse(lines[0]!) as T;
}
