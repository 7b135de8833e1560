// agentctl audit verify and export work on a log's files, with or without a runtime; prove,
// checkpoint and rotate-key call auditd-ai.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import type { ProofView } from '../../../wire/auditd-ai.ts';
import { FAULTS, Fault, fault } from '../../../wire/errors.ts';
import { listSegments, readArchivedLines } from '../archive/read-archive.ts';
import type { Session } from '../command.ts';
import { readInput } from '../input.ts';
import { makeDirs } from '../make-state-dir.ts';
import { findProgram } from '../programs.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatSize, pluralize } from '../show/amounts.ts';
import { assertReadable } from '../state.ts';

function requireLogDir(dir: string): string {
  if (existsSync(join(dir, 'audit.jsonl'))) return dir;
  assertReadable(dir, 'audit.jsonl');
  throw fault('not_found', `no audit log found in ${dir}`, {
    hint: 'Name the directory that contains audit.jsonl, or use --state.',
  });
}

/** Without this check every archive would be reported as missing. */
export function requireDir(dir: string): string {
  if (existsSync(dir) && statSync(dir).isDirectory()) return dir;
  throw fault('not_found', `directory ${dir} not found`, {
    hint: 'agentctl audit segments shows where archives were written to.',
  });
}

/** Passes on the verifier's output and exit status. */
export async function verify({ args, out, stateDir }: Session): Promise<number> {
  const own = join(resolve(stateDir), 'audit');
  const dir = requireLogDir(resolve(args.positionals[0] ?? own));
  const from = args.text('from');
  if (from !== undefined) readCheckpointFile(from);
  const archive = args.text('archive');
  if (archive !== undefined) requireDir(archive);
  const options = [
    // A copy is only read, and all of it: what lies beside it came with it.
    ...(dir === own ? ['--own'] : []),
    ...(args.flag('full') ? ['--full'] : []),
    ...(from === undefined ? [] : ['--from', resolve(from)]),
    ...(archive === undefined ? [] : ['--archive', resolve(archive)]),
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

/** Without this check a wrong file would make a sound log look broken. */
export function readCheckpointFile(file: string): string {
  const hint = 'Store one with: agentctl audit checkpoint > FILE';
  if (!existsSync(file)) throw fault('not_found', `checkpoint file ${file} not found`, { hint });
  const text = readInput(file);
  if (/^— \S+ \S+$/m.test(text)) return text;
  throw fault('bad_usage', `${file} is not a checkpoint: it has no signature`, { hint });
}

const isSegment = (name: string): boolean => /^audit(-\d+)?\.jsonl$/.test(name);

export async function exportLog({ args, out, stateDir }: Session): Promise<void> {
  const from = requireLogDir(join(stateDir, 'audit'));
  const to = resolve(args.positionals[0]!);
  if (existsSync(to) && readdirSync(to).length > 0) {
    throw fault('conflict', `${to} is not empty`, {
      hint: 'Name a new or empty directory.',
    });
  }
  const names = copyOrCleanUp(from, to);
  const bytes = names.reduce((sum, name) => sum + statSync(join(to, name)).size, 0);
  out.print({ export: { directory: to, files: names, size_bytes: bytes } }, () => [
    `${pluralize(names.length, 'file')} (${formatSize(bytes)}) copied to ${to}`,
    `Check it anywhere: agentctl audit verify ${to}`,
  ]);
}

/** The hashes of the segments that are archived, which a verifier needs. */
const ARCHIVED = 'archived.jsonl';
/** The hash of every event, by which a verifier finds the changed one. */
const LEAVES = join('tree', 'L00');

/**
 * Lists only what a verifier needs, never the signing key. Signatures and hashes come first, so
 * that the segments, copied later from a growing log, contain all they cover.
 */
function listLog(dir: string): string[] {
  const segments = readdirSync(dir).filter(isSegment).sort();
  const before = [join('keys', 'public.txt'), 'checkpoint', 'checkpoints.log', LEAVES, ARCHIVED];
  return [...before.filter((name) => existsSync(join(dir, name))), ...segments];
}

/** Removes a partial copy, which would block the next export. */
function copyOrCleanUp(from: string, to: string): string[] {
  try {
    for (const below of ['keys', 'tree']) makeDirs(join(to, below), 0o755);
    return copyLog(from, to);
  } catch (error) {
    if (existsSync(to))
      for (const name of readdirSync(to)) rmSync(join(to, name), { recursive: true });
    throw error;
  }
}

/** Starts over when a segment was sealed, and so renamed, or archived during the copy. */
function copyLog(from: string, to: string): string[] {
  for (;;) {
    const names = listLog(from);
    const isWhole = names.every((name) => copyIfExists(join(from, name), join(to, name)));
    if (isWhole && listLog(from).join() === names.join()) return names;
    for (const name of names) rmSync(join(to, name), { force: true });
  }
}

function copyIfExists(from: string, to: string): boolean {
  try {
    copyFile(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return false;
  }
}

/** The copy belongs to this user, so that the log's owner cannot change it later. */
function copyFile(from: string, to: string): void {
  copyFileSync(from, to);
  chownSync(to, process.getuid!(), process.getgid!());
  chmodSync(to, 0o644);
  if (from.endsWith('.jsonl')) truncatePartialLine(to);
}

const READ_BACK_BYTES = 65_536;

/** The last event may have been copied while it was being written. */
function truncatePartialLine(file: string): void {
  const fd = openSync(file, 'r+');
  try {
    const bytes = Buffer.alloc(READ_BACK_BYTES);
    for (let end = fstatSync(fd).size; end > 0; ) {
      const start = Math.max(0, end - READ_BACK_BYTES);
      const got = readSync(fd, bytes, 0, end - start, start);
      const newline = bytes.subarray(0, got).lastIndexOf(0x0a);
      if (newline === got - 1 && end === fstatSync(fd).size) return;
      if (newline >= 0 || start === 0) {
        ftruncateSync(fd, start + newline + 1);
        return;
      }
      end = start;
    }
  } finally {
    closeSync(fd);
  }
}

/** `event` is an id, or a number from the first column of audit tail. */
export async function readProof(runtime: RuntimeClient, event: string): Promise<ProofView> {
  let id = event;
  if (isSeq(event)) {
    const query = { after: Number(event) - 1, order: 'asc', limit: 1 } as const;
    const { events, archived } = await runtime.call('auditd-ai', 'events', { query });
    if (archived !== undefined) throw archivedFault(Number(event));
    id = events[0]?.id ?? event;
  }
  return runtime.call('auditd-ai', 'prove', { params: { id } }).catch((error: unknown) => {
    if (!(error instanceof Fault) || error.code !== 'not_found') throw error;
    throw fault('not_found', error.message, {
      hint: 'Use a number from the first column of agentctl audit tail, or an id (--json).',
      cause: error,
    });
  });
}

const isSeq = (event: string): boolean => /^\d{1,15}$/.test(event);
const readId = (line: string): unknown => (JSON.parse(line) as { id?: unknown }).id;

const archivedFault = (seq: number): Fault =>
  fault('archived', `event ${seq} is archived`, {
    hint: 'See where: agentctl audit segments. Then: agentctl audit prove EVENT --archive DIR.',
    details: { seqs: [seq] },
  });

/** Proves an event whose text is read from the archives in `dir`, if it is archived. */
async function readProofWith(
  runtime: RuntimeClient,
  event: string,
  dir: string,
): Promise<ProofView> {
  try {
    return await readProof(runtime, event);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'archived') throw error;
    const seqs = error.details?.seqs as number[];
    const lines = await readArchivedLines(dir, await listSegments(runtime), seqs);
    const line = isSeq(event) ? lines[0] : lines.find((one) => readId(one) === event);
    if (line === undefined) throw fault('not_found', `the log has no event ${event}`);
    return runtime.call('auditd-ai', 'proveLine', { body: { event: line } });
  }
}

export async function prove({ args, out, runtime }: Session): Promise<void> {
  const event = args.positionals[0]!;
  const dir = args.text('archive');
  const proof =
    dir === undefined
      ? await readProof(runtime(), event)
      : await readProofWith(runtime(), event, requireDir(dir));
  if (out.json) out.printJson({ proof });
  else out.writeLine(JSON.stringify(proof, null, 2));
}

export async function checkpoint({ out, runtime }: Session): Promise<void> {
  const view = await runtime().call('auditd-ai', 'checkpoint', {});
  if (out.json) return out.printJson({ checkpoint: view });
  out.write(view.note.endsWith('\n') ? view.note : `${view.note}\n`);
  out.info(
    `Store it elsewhere; verify later with: agentctl audit verify --from FILE. Key: ${view.vkey}`,
  );
}

export async function rotateKey({ out, runtime }: Session): Promise<void> {
  const keys = await runtime().call('auditd-ai', 'rotateKey', {});
  out.print({ keys }, () => [`New key       ${keys.vkey}`, `Previous key  ${keys.previous}`]);
}
