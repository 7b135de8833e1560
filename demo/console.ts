// Prints the demo's output, and runs agentctl as a person would type it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { askYesNo } from './ask-yes-no.ts';

/** The program that bin/agentctl starts; `make demo` has just built it. */
const program = join(import.meta.dirname, '..', 'build', 'agentctl.mjs');
const stateFromEnv = process.env.AGENTD_STATE ?? '';
/** Kept, and printed at the end. Not in /tmp, because every box has its own /tmp. */
export const state =
  stateFromEnv === '' ? join(mkdtempSync('/var/tmp/agentd-demo-'), 'state') : stateFromEnv;

const isTerminal = process.stdout.isTTY === true;
const bold = (text: string) => (isTerminal ? `\x1b[1m${text}\x1b[0m` : text);
const dim = (text: string) => (isTerminal ? `\x1b[2m${text}\x1b[0m` : text);
export const highlight = (text: string) => (isTerminal ? `\x1b[33m${text}\x1b[0m` : text);

export const print = (text: string): void => void process.stdout.write(`${text}\n`);
export const printHeading = (text: string): void => print(`\n${bold(text)}`);

export function agentctl(
  args: string[],
  options: { capturesOutput?: boolean; isQuiet?: boolean } = {},
): string {
  const command = args.map((arg) => (/[\s"]/.test(arg) ? `"${arg}"` : arg)).join(' ');
  if (options.isQuiet !== true) print(dim(`$ agentctl ${command}`));
  const result = spawnSync(process.execPath, [program, ...args], {
    env: { ...process.env, AGENTD_STATE: state },
    encoding: 'utf8',
    stdio: ['ignore', options.capturesOutput === true ? 'pipe' : 'inherit', 'inherit'],
  });
  if (result.status === 0) return result.stdout ?? '';
  // 130: agentctl handled the signal itself.
  if (result.signal === 'SIGINT' || result.status === 130) return fail(INTERRUPTED);
  return fail(`agentctl ${args[0]} ended with ${result.signal ?? `status ${result.status}`}`);
}

export function fail(reason: string): never {
  spawnSync(process.execPath, [program, 'down'], {
    env: { ...process.env, AGENTD_STATE: state },
    stdio: 'ignore',
  });
  process.stderr.write(`\nThe demo stopped: ${reason}.\n${formatCleanupHint()}\n`);
  process.exit(1);
}

export const INTERRUPTED = 'interrupted by Ctrl-C';

/** Directories that are kept for inspection. A state directory from the environment is not ours. */
const keptDirs = new Set(stateFromEnv === '' ? [dirname(state)] : []);
export const keepDir = (dir: string): void => void keptDirs.add(dir);
export const formatCleanupHint = (): string => {
  const dirs = [...keptDirs].filter(
    (dir) => ![...keptDirs].some((parent) => dir.startsWith(`${parent}/`)),
  );
  return `Its files were kept for inspection. To remove them: rm -rf ${dirs.join(' ')}`;
};

/** Asks on a terminal. Without one, or with DEMO_YES=1, prints that it answered yes. */
export async function confirm(question: string): Promise<boolean> {
  const skipReason =
    process.env.DEMO_YES === '1' ? 'DEMO_YES=1' : process.stdin.isTTY ? '' : 'no terminal';
  if (skipReason !== '') {
    print(`${question} [y/n] y   (${skipReason}: answered for you)`);
    return true;
  }
  const { stdin: input, stdout: output } = process;
  return (await askYesNo(bold(question), { input, output })) ?? fail(INTERRUPTED);
}
