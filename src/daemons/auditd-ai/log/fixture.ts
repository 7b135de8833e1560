// Test helpers for the log: temporary directories, a manual clock, events, a disk that can fail.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { Fault } from '../../../wire/errors.ts';
import { type LogDisk, systemDisk } from './disk.ts';
import { type AuditLog, type LogOptions, openLog } from './log.ts';
import { listSealed } from './segments.ts';
import type { VerifyReport } from './verify-report.ts';

export const ORIGIN = 'test.example/audit';
const SETTINGS = { origin: ORIGIN, segmentBytesMax: 1 << 20, checkpointEveryMs: 1_000 };

export function makeDir(t: TestContext): string {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'agentd-log-'));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  return path.join(dir, 'audit');
}

export function copyDir(t: TestContext, from: string): string {
  const to = makeDir(t);
  fs.cpSync(from, to, { recursive: true });
  return to;
}

export function makeManualClock() {
  let now = Date.UTC(2026, 5, 29, 10);
  const timers = new Set<{ atMs: number; fn: () => void }>();
  return {
    nowMs: () => now,
    at(atMs: number, fn: () => void) {
      const timer = { atMs, fn };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    advance(ms: number): void {
      now += ms;
      for (const timer of [...timers].filter(({ atMs }) => atMs <= now)) {
        timers.delete(timer);
        timer.fn();
      }
    },
  };
}

export function open(dir: string, options: Partial<LogOptions> = {}): Promise<AuditLog> {
  return openLog({ dir, clock: makeManualClock(), ...SETTINGS, ...options });
}

export const body = (n: number, more: object = {}): string =>
  JSON.stringify({ id: `evt_${n}`, ts: '2026-06-29T10:00:00Z', event: 'task.created', n, ...more });

export const bodies = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, i) => body(from + i));

export const formatLine = (seq: number): string => `{"seq":${seq},${body(seq).slice(1)}`;

/** Writes and closes a log of `batches` appends of ten events, each signed. */
export async function writeLog(
  dir: string,
  batches: number,
  options: Partial<LogOptions> = {},
): Promise<void> {
  const log = await open(dir, options);
  for (let n = 0; n < batches; n += 1) {
    await log.append(bodies(log.size, 10));
    await log.signNow();
  }
  await log.close();
}

/** Opens a log, appends this many events, and closes it. */
export async function addEvents(
  dir: string,
  count: number,
  options: Partial<LogOptions> = {},
): Promise<void> {
  const log = await open(dir, options);
  await log.append(bodies(log.size, count));
  await log.close();
}

export const segmentPath = (dir: string, name = 'audit.jsonl'): string => path.join(dir, name);

export const readLines = (file: string): string[] =>
  fs.readFileSync(file, 'utf8').split('\n').slice(0, -1);

export function writeLines(file: string, lines: readonly string[]): void {
  if (fs.existsSync(file)) fs.chmodSync(file, 0o640);
  fs.writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
}

/** Applies `edit` to the lines of all segments and writes them back. */
export function editLines(dir: string, edit: (lines: string[]) => string[]): void {
  const files = [...listSealed(dir).map((s) => s.path), segmentPath(dir)];
  const counts = files.map((file) => readLines(file).length);
  const lines = edit(files.flatMap(readLines));
  let from = 0;
  for (const [i, file] of files.entries()) {
    const to = i === files.length - 1 ? lines.length : from + counts[i]!;
    writeLines(file, lines.slice(from, to));
    from = to;
  }
}

/** Lists each problem's kind and seq. */
export const listKinds = (report: VerifyReport): (string | number | null)[][] =>
  report.problems.map(({ kind, seq }) => [kind, seq]);

export function makeOsError(code: string): Error {
  return Object.assign(new Error(`${code}: made by the test`), { code, syscall: 'write' });
}

/** Makes a disk that counts syncs and fails when a `fail…` function returns an error. */
export function makeTestDisk() {
  const disk = {
    syncs: 0,
    /** Returns the error to fail with; half of the bytes are written first. */
    failWrite: (_bytes: Buffer, _position: number | null): Error | undefined => undefined,
    failSync: (): Error | undefined => undefined,
    failTruncate: (): Error | undefined => undefined,
    write(fd: number, bytes: Buffer, position: number | null): number {
      const error = disk.failWrite(bytes, position);
      if (error !== undefined) {
        // A full disk writes what fits.
        systemDisk.write(fd, bytes.subarray(0, Math.floor(bytes.length / 2)), position);
        throw error;
      }
      return systemDisk.write(fd, bytes, position);
    },
    datasync(fd: number): void {
      disk.syncs += 1;
      const error = disk.failSync();
      if (error !== undefined) throw error;
      systemDisk.datasync(fd);
    },
    truncate(fd: number, sizeBytes: number): void {
      const error = disk.failTruncate();
      if (error !== undefined) throw error;
      systemDisk.truncate(fd, sizeBytes);
    },
  };
  return disk satisfies LogDisk;
}

/** Asserts a fault with this code and, if given, this kind of damage. */
export const isFault =
  (code: string, kind?: string) =>
  (problem: unknown): boolean => {
    assert.ok(problem instanceof Fault, String(problem));
    assert.equal(problem.code, code, problem.message);
    if (kind !== undefined) assert.equal(problem.details?.kind, kind, problem.message);
    return true;
  };
