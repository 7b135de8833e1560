// Backups of a test's runtime, made as an operator makes them: with agentctl, as the user whose
// runtime it is.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findBackup, formatObjectPath } from '../../src/clients/agentctl/backup/backup-dir.ts';
import { readEntries, showPath } from '../../src/clients/agentctl/backup/manifest.ts';
import { ROOT, type TestRuntime } from './runtime.ts';

export type CtlResult = { code: number | null; stdout: string; stderr: string };
export type CtlOptions = { uid?: number | undefined; stdin?: Buffer; env?: Record<string, string> };
type Place = Pick<TestRuntime, 'stateDir' | 'env'>;

/** Before the words of a program. */
function withState(words: readonly string[], stateDir: string): string[] {
  const at = words.includes('--') ? words.indexOf('--') : words.length;
  return [...words.slice(0, at), '--state', stateDir, ...words.slice(at)];
}

/** Starts agentctl; root becomes another user where the runtime is one's. */
export function startCtl(place: Place, words: string[], { uid, env }: CtlOptions = {}) {
  const program = [join(ROOT, 'build', 'agentctl.mjs'), ...withState(words, place.stateDir)];
  const node = uid === undefined ? process.execPath : join(dirname(place.stateDir), 'node');
  const become = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'];
  const argv = [...(uid === undefined ? [] : become), node, ...program];
  return spawn(argv[0]!, argv.slice(1), { env: { ...place.env, ...env } });
}

export async function finished(child: ChildProcess): Promise<CtlResult & { bytes: Buffer }> {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout!.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr!.on('data', (chunk: Buffer) => err.push(chunk));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  const bytes = Buffer.concat(out);
  return {
    code,
    bytes,
    stdout: bytes.toString('utf8'),
    stderr: Buffer.concat(err).toString('utf8'),
  };
}

export function ctl(place: Place, words: string[], options: CtlOptions = {}) {
  const child = startCtl(place, words, options);
  child.stdin.on('error', () => undefined).end(options.stdin ?? '');
  return finished(child);
}

/** Runs it with --json, and gives the document of a success. */
export async function ctlJson<T>(place: Place, words: string[], options?: CtlOptions): Promise<T> {
  const ran = await ctl(place, [...words, '--json'], options);
  assert.equal(ran.code, 0, `${words.join(' ')}: ${ran.stderr}${ran.stdout}`);
  return JSON.parse(ran.stdout) as T;
}

export type BackupDocument = {
  backup: {
    id: string;
    taken_at: string;
    running: boolean;
    events: number;
    manifest_sha256: string;
    files: number;
    size_bytes: number;
    copied_files: number;
    copied_bytes: number;
    changed_trees: string[];
    skipped: { path: string; reason: string }[];
  };
};
export type VerifyDocument = {
  backups: {
    id: string;
    ok: boolean;
    problems: { kind: string; path: string; message: string }[];
  }[];
};

/** The file in a backup directory that holds this path of the newest backup. */
export function contentOf(dir: string, path: string | RegExp): string {
  for (const entry of readEntries(findBackup(dir, undefined).file)) {
    if (!('sha256' in entry)) continue;
    const name = entry.type === 'artifact' ? `objects/${entry.sha256}` : showPath(entry);
    if (typeof path === 'string' ? name === path : path.test(name))
      return join(dir, formatObjectPath(entry.sha256));
  }
  throw new Error(`no ${path} in the backup`);
}

/** Changes one byte, and nothing about the file's length. */
export function flipByte(file: string, at = 0.5): void {
  const bytes = readFileSync(file);
  const place = Math.floor(bytes.length * at);
  bytes[place]! ^= 0x20;
  chmodSync(file, 0o600);
  writeFileSync(file, bytes);
}

export const growFile = (file: string): void => appendFileSync(file, 'x');

/** Changes a manifest, and gives it the hash that fits again. */
export function forgeManifest(file: string, from: string, to: string): void {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const end = JSON.parse(lines.pop()!) as { sha256: string };
  const text = `${lines.join('\n')}\n`;
  assert.ok(text.includes(from), `no ${from} in ${file}`);
  const forged = text.replace(from, to);
  const sha256 = createHash('sha256').update(forged).digest('hex');
  writeFileSync(file, `${forged}${JSON.stringify({ ...end, sha256 })}\n`);
}
