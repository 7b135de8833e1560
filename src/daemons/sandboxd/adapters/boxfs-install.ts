// Encodes the steps that bring files from one root into another, and decodes what became of them
// (native/boxfs/install.c).
import { createHash } from 'node:crypto';
import { fault } from '../../../wire/errors.ts';
import type { FileFaultReason } from '../../../wire/sandboxd/files.ts';
import { statusReason } from './boxfs-faults.ts';
import { encodePath } from './boxfs-paths.ts';
import { type Fields, frame, OP, pathField, type RootedPath, u8, u16, u32 } from './boxfs-wire.ts';

/** The state of a path. `mode` has permission bits only; null: any mode. */
export type InstallSide =
  | { type: 'file'; mode: number; sha256: string }
  | { type: 'directory'; mode: number | null }
  | { type: 'link'; target: string };

/** One path: what must be there, and what has to be there afterwards; null: nothing. */
export type InstallStep = {
  path: string;
  before: InstallSide | null;
  after: InstallSide | null;
  /** Both sides together, to limit a batch. */
  sizeBytes: number;
  /**
   * Where the new content is. `copy`: in the layer, but read from the lower directory itself, so it
   * is copied to the staging directory first. `ready`: it is there already.
   */
  source: 'layer' | 'copy' | 'ready';
};

export type InstallConflict =
  | 'changed'
  | 'removed'
  | 'appeared'
  | 'not_empty'
  /** The new content is not what the list of changes said. */
  | 'source_changed';

/** `skipped`: an earlier step was not done. */
export type InstallOutcome =
  | { path: string; outcome: 'done' | 'already' | 'skipped' }
  | { path: string; outcome: 'conflict'; reason: InstallConflict }
  | { path: string; outcome: 'failed'; reason: FileFaultReason };

/** `ready`: nothing is in the way; `entries`: names in a directory that is to be removed. */
export type CheckedStep = { step: InstallStep; entries: number } & (
  | { outcome: 'ready'; needsParent: boolean }
  | { outcome: 'already' }
  | { outcome: 'blocked'; reason: InstallConflict | FileFaultReason }
);

export const STEPS_MAX = 256;
const STEP_BYTES_MAX = 64 * 1024 * 1024;
const FRAME_PATHS_BYTES_MAX = 3 * 1024 * 1024;
const NO_ROOT = 0xffff;
const ANY_MODE = 0xffff_ffff;
const TYPES = { file: 1, directory: 2, link: 3 } as const;
const FLAGS = { check: 1, repeat: 2, sync: 4, stage: 8 } as const;

const CONFLICTS: readonly InstallConflict[] = [
  'changed',
  'removed',
  'appeared',
  'not_empty',
  'source_changed',
];
const NO_PARENT = 6;

export type InstallFrame = {
  from: RootedPath;
  to: RootedPath;
  undo: RootedPath | null;
  applyId: string;
  flags: readonly (keyof typeof FLAGS)[];
  steps: readonly InstallStep[];
};

function encodeSide(side: InstallSide | null): Buffer[] {
  if (side === null) return [u8(0), u32(0)];
  const head = [u8(TYPES[side.type]), u32('mode' in side ? (side.mode ?? ANY_MODE) : 0)];
  if (side.type === 'file') return [...head, Buffer.from(side.sha256, 'hex')];
  return side.type === 'link' ? [...head, pathField(side.target)] : head;
}

const encodePlace = ({ root, path }: RootedPath): Buffer[] => [u16(root), pathField(path)];

export function encodeInstall(id: number, { from, to, undo, ...job }: InstallFrame): Buffer {
  return frame(OP.install, id, [
    ...encodePlace(from),
    ...encodePlace(to),
    ...encodePlace(undo ?? { root: NO_ROOT, path: '' }),
    u8(job.flags.reduce((bits, name) => bits | FLAGS[name], 0)),
    // The names of temporary files contain it; another apply must not remove them.
    createHash('sha256').update(job.applyId).digest().subarray(0, 8),
    u16(job.steps.length),
    ...job.steps.flatMap(({ path, before, after }) => [
      pathField(path),
      ...encodeSide(before),
      ...encodeSide(after),
    ]),
  ]);
}

type RawOutcome = { outcome: number; cause: number; entries: number };

function readOutcomes(fields: Fields, count: number): RawOutcome[] {
  if (fields.u16() !== count) throw fault('bad_output', 'boxfs answered other steps');
  return Array.from({ length: count }, () => ({
    outcome: fields.u8(),
    cause: fields.u8(),
    entries: fields.u32(),
  }));
}

function conflictOf(cause: number): InstallConflict {
  const reason = CONFLICTS[cause - 1];
  if (reason === undefined) throw fault('bad_output', 'boxfs sent an unknown conflict');
  return reason;
}

export function decodeInstall(fields: Fields, steps: readonly InstallStep[]): InstallOutcome[] {
  return readOutcomes(fields, steps.length).map(({ outcome, cause }, at) => {
    const { path } = steps[at]!;
    if (outcome === 1) return { path, outcome: 'done' };
    if (outcome === 2) return { path, outcome: 'already' };
    if (outcome === 4) return { path, outcome: 'conflict', reason: conflictOf(cause) };
    if (outcome === 5) return { path, outcome: 'failed', reason: statusReason(cause) };
    throw fault('bad_output', 'boxfs sent an unknown outcome');
  });
}

export function decodeCheck(fields: Fields, steps: readonly InstallStep[]): CheckedStep[] {
  return readOutcomes(fields, steps.length).map(({ outcome, cause, entries }, at) => {
    const checked = { step: steps[at]!, entries };
    if (outcome === 2) return { ...checked, outcome: 'already' };
    if (outcome === 3) return { ...checked, outcome: 'ready', needsParent: cause === NO_PARENT };
    if (outcome === 4) return { ...checked, outcome: 'blocked', reason: conflictOf(cause) };
    if (outcome === 5) return { ...checked, outcome: 'blocked', reason: statusReason(cause) };
    throw fault('bad_output', 'boxfs sent an unknown outcome');
  });
}

const linkBytes = (side: InstallSide | null): number =>
  side?.type === 'link' ? encodePath(side.target).length : 0;

/** Splits steps into batches that take a short time each. */
export function batchSteps(steps: readonly InstallStep[]): InstallStep[][] {
  const batches: InstallStep[][] = [];
  let [bytes, pathBytes] = [0, 0];
  for (const step of steps) {
    const paths =
      encodePath(step.path).length + linkBytes(step.before) + linkBytes(step.after) + 100;
    const isFull =
      batches.at(-1) === undefined ||
      batches.at(-1)!.length >= STEPS_MAX ||
      bytes + step.sizeBytes > STEP_BYTES_MAX ||
      pathBytes + paths > FRAME_PATHS_BYTES_MAX;
    if (isFull) {
      batches.push([]);
      [bytes, pathBytes] = [0, 0];
    }
    batches.at(-1)!.push(step);
    bytes += step.sizeBytes;
    pathBytes += paths;
  }
  return batches;
}
