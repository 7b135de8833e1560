// A bare start of the same Node: the baseline for our own Node programs.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Resolves with the time from spawn to exit, in ms. */
export function timeProcess(
  program: string,
  argv: string[],
  env: Record<string, string> = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const child = spawn(program, argv, { env, stdio: 'ignore' });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      const tookMs = performance.now() - began;
      if (code === 0) resolve(tookMs);
      else reject(new Error(`${program} ${argv.join(' ')} ended with ${signal ?? code}`));
    });
  });
}

/** Returns a function that starts Node with an empty program and waits for its exit. */
export function bareStart(): () => Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const empty = join(dir, 'empty.mjs');
  writeFileSync(empty, '');
  return () => timeProcess(process.execPath, [empty]);
}
