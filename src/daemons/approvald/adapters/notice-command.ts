// Runs the operator's notice command: directly, never through a shell, with the notice as one JSON
// document on standard input and none of it in the arguments.
import { spawn } from 'node:child_process';

export type RunNoticeCommand = (body: string) => Promise<void>;

export function makeNoticeCommand(options: {
  argv: readonly string[];
  timeoutMs: number;
  path: string;
}): RunNoticeCommand {
  const [program, ...args] = options.argv;
  return (body) =>
    new Promise((resolve, reject) => {
      const child = spawn(program!, args, {
        shell: false,
        stdio: ['pipe', 'ignore', 'ignore'],
        env: { PATH: options.path },
        timeout: options.timeoutMs,
        killSignal: 'SIGKILL',
      });
      // A program may exit without reading its input.
      child.stdin.on('error', () => {});
      child.on('error', reject);
      child.on('close', (code, signal) => {
        if (code === 0) resolve();
        else reject(new Error(`${program} ended with ${signal ?? `status ${code}`}`));
      });
      child.stdin.end(body);
    });
}
