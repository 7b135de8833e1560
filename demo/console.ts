// What a person sees of the demonstration, and agentctl as they would type it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { askYesNo } from './ask.ts';

/** What bin/agentctl starts; `make demo` has just built it. */
const program = join(import.meta.dirname, '..', 'build', 'agentctl.mjs');
const given = process.env.AGENTD_STATE ?? '';
/** Kept, and named at the end. Not in /tmp, which boxes have one of their own of. */
export const state = given === '' ? join(mkdtempSync('/var/tmp/agentd-demo-'), 'state') : given;

const onTerminal = process.stdout.isTTY === true;
const bold = (text: string) => (onTerminal ? `\x1b[1m${text}\x1b[0m` : text);
const dim = (text: string) => (onTerminal ? `\x1b[2m${text}\x1b[0m` : text);
export const warn = (text: string) => (onTerminal ? `\x1b[33m${text}\x1b[0m` : text);

export const show = (text: string): void => void process.stdout.write(`${text}\n`);
export const say = (text: string): void => show(`\n${bold(text)}`);

export function agentctl(
  args: string[],
  options: { captures?: boolean; quiet?: boolean } = {},
): string {
  const shown = args.map((arg) => (/[\s"]/.test(arg) ? `"${arg}"` : arg)).join(' ');
  if (options.quiet !== true) show(dim(`$ agentctl ${shown}`));
  const done = spawnSync(process.execPath, [program, ...args], {
    env: { ...process.env, AGENTD_STATE: state },
    encoding: 'utf8',
    stdio: ['ignore', options.captures === true ? 'pipe' : 'inherit', 'inherit'],
  });
  if (done.status === 0) return done.stdout ?? '';
  // 130: it had heard of it and ended in order.
  if (done.signal === 'SIGINT' || done.status === 130) return fail(CTRL_C);
  return fail(`agentctl ${args[0]} ended with ${done.signal ?? `status ${done.status}`}`);
}

export function fail(why: string): never {
  spawnSync(process.execPath, [program, 'down'], {
    env: { ...process.env, AGENTD_STATE: state },
    stdio: 'ignore',
  });
  process.stderr.write(`\nThe demonstration stopped: ${why}.\n${leftText()}\n`);
  process.exit(1);
}

export const CTRL_C = 'somebody pressed Ctrl-C';

/** Directories that stay, so that people can look into them. A state of theirs is not ours. */
const made = new Set(given === '' ? [dirname(state)] : []);
export const keep = (dir: string): void => void made.add(dir);
export const leftText = (): string => {
  const dirs = [...made].filter((dir) => ![...made].some((one) => dir.startsWith(`${one}/`)));
  return `What it made stays, to look at. To remove it: rm -rf ${dirs.join(' ')}`;
};

/** Asked on a terminal; without one, or with DEMO_YES=1, the answer is yes and says so. */
export async function ask(question: string): Promise<boolean> {
  const unasked =
    process.env.DEMO_YES === '1' ? 'DEMO_YES=1' : process.stdin.isTTY ? '' : 'nobody at a terminal';
  if (unasked !== '') {
    show(`${question} [y/n] y   (${unasked}: answered for you)`);
    return true;
  }
  const { stdin: input, stdout: output } = process;
  return (await askYesNo(bold(question), { input, output })) ?? fail(CTRL_C);
}
