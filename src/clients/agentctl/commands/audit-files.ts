// agentctl audit verify and export: on the files of a log, with or without a runtime.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { FAULTS, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { findProgram } from '../programs.ts';
import { size, some } from '../show/amounts.ts';

function logDir(dir: string): string {
  if (existsSync(join(dir, 'audit.jsonl'))) return dir;
  throw fault('not_found', `there is no audit log in ${dir}`, {
    hint: 'Name the directory that holds audit.jsonl, or the state with --state.',
  });
}

/** The verifying program speaks for itself: what it prints and how it ends is the answer. */
export async function verify({ args, out, stateDir }: Session): Promise<number> {
  const dir = logDir(resolve(args.words[0] ?? join(stateDir, 'audit')));
  const from = args.text('from');
  if (from !== undefined && !existsSync(from)) {
    throw fault('not_found', `there is no checkpoint file ${from}`, {
      hint: 'Keep one with: agentctl audit checkpoint > FILE',
    });
  }
  const options = [
    ...(from === undefined ? [] : ['--from', resolve(from)]),
    ...args.list('key').flatMap((key) => ['--key', key]),
    ...(out.json ? ['--json'] : []),
  ];
  const program = findProgram('audit-verify');
  const { status, error } = spawnSync(process.execPath, [program, ...options, dir], {
    stdio: 'inherit',
    env: {},
  });
  if (error !== undefined) throw error;
  return status ?? FAULTS.internal.exit;
}

/** Only what a verifier needs. A signing key that travels with the log makes the copy worthless. */
const isPublic = (name: string): boolean =>
  /^audit(-\d+)?\.jsonl$/.test(name) || name === 'checkpoint' || name === 'checkpoints.log';

export async function exportLog({ args, out, stateDir }: Session): Promise<void> {
  const from = logDir(join(stateDir, 'audit'));
  const to = resolve(args.words[0]!);
  if (existsSync(to) && readdirSync(to).length > 0) {
    throw fault('conflict', `${to} is not empty`, {
      hint: 'Name a directory that is new or empty.',
    });
  }
  mkdirSync(join(to, 'keys'), { recursive: true });
  const names = copyLog(from, to);
  const bytes = names.reduce((sum, name) => sum + statSync(join(to, name)).size, 0);
  out.give({ export: { directory: to, files: names, size_bytes: bytes } }, () => [
    `${some(names.length, 'file')} (${size(bytes)}) copied to ${to}`,
    `Check it anywhere: agentctl audit verify ${to}`,
  ]);
}

function listLog(dir: string): string[] {
  const names = readdirSync(dir).filter(isPublic).sort(checkpointsFirst);
  const keys = join('keys', 'public.txt');
  return existsSync(join(dir, keys)) ? [keys, ...names] : names;
}

/** While it is written a segment may be sealed, and then files have other names: once more. */
function copyLog(from: string, to: string): string[] {
  for (;;) {
    const names = listLog(from);
    for (const name of names) {
      copyFileSync(join(from, name), join(to, name));
      chmodSync(join(to, name), 0o644);
    }
    if (listLog(from).join() === names.join()) return names;
    for (const name of names) rmSync(join(to, name), { force: true });
  }
}

/** The checkpoints come first: what they speak of is then in the segments that follow. */
function checkpointsFirst(a: string, b: string): number {
  const rank = (name: string) => (name.startsWith('checkpoint') ? 0 : 1);
  return rank(a) - rank(b) || (a < b ? -1 : 1);
}
