// Runs mail programs of Debian as a person does, with the command that stands for sendmail.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { ROOT } from './runtime.ts';

export const SENDMAIL = join(ROOT, 'bin', 'agentctl-sendmail');

export type RanProgram = { code: number | null; output: string };

export function runProgram(
  argv: readonly string[],
  options: { stdin?: string; env?: Record<string, string>; uid?: number } = {},
): Promise<RanProgram> {
  const [program, ...args] = argv;
  const child = spawn(program!, args, {
    env: { PATH: process.env.PATH!, TERM: 'dumb', LC_ALL: 'C.UTF-8', ...options.env },
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
  child.stdin.on('error', () => {});
  child.stdin.end(options.stdin ?? '');
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}
