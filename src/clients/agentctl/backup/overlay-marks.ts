// The marks of layers in a backup: what agents deleted or replaced is a device or an attribute of a
// directory, which Node cannot make or read. A C program does (native/overlay-marks).
import { spawnSync } from 'node:child_process';
import { fault } from '../../../wire/errors.ts';
import { findNative } from '../programs.ts';
import type { OverlayMarks } from './manifest.ts';

/** The directory of a layer that has what agents wrote. */
export const UPPER = /^workspaces\/[^/]+\/layers\/\d+\/upper$/;
export const IN_UPPER = /^workspaces\/[^/]+\/layers\/\d+\/upper\//;

const OUTPUT_BYTES_MAX = 1 << 28;
const SPACES = ['trusted', 'user'] as const;

function run(stateFd: number, args: readonly string[], input: Buffer): Buffer {
  const { status, stdout, stderr, error } = spawnSync(findNative('overlay-marks'), args, {
    input,
    stdio: ['pipe', 'pipe', 'pipe', stateFd],
    maxBuffer: OUTPUT_BYTES_MAX,
  });
  if (status === 0) return stdout;
  throw fault('storage_broken', `the marks of a layer: ${stderr?.toString().trim()}`, {
    hint: 'Nothing else is wrong with the state directory: retry, as the user who owns it or root.',
    cause: error,
  });
}

/** Returns the marked directories below one; the keys are their paths as latin1. */
export function readMarks(stateFd: number, dir: string): Map<string, OverlayMarks> {
  const fields = run(stateFd, ['read', dir], Buffer.alloc(0)).toString('latin1').split('\0');
  const marks = new Map<string, OverlayMarks>();
  for (let at = 0; at + 2 < fields.length; at += 3) {
    const [kind, space, path] = fields.slice(at, at + 3) as [string, OverlayMarks['space'], string];
    const mark: OverlayMarks = marks.get(path) ?? { space };
    if (kind === 'O') mark.opaque = true;
    else mark.redirect_base64 = Buffer.from(fields[at++ + 3]!, 'latin1').toString('base64');
    marks.set(path, mark);
  }
  return marks;
}

const END = Buffer.alloc(1);
const toRecord = (...fields: (string | Buffer)[]): Buffer =>
  Buffer.concat(fields.flatMap((field) => [Buffer.from(field as string), END]));

export type MarkRecord = Buffer;

export const whiteoutRecord = (path: Buffer, { uid, gid }: { uid: number; gid: number }) =>
  toRecord('W', `${uid}.${gid}`, path);

export function directoryRecords(path: Buffer, marks: OverlayMarks): MarkRecord[] {
  const { space, opaque, redirect_base64: redirect } = marks;
  if (!SPACES.includes(space)) throw fault('storage_broken', 'a mark of another name space');
  return [
    ...(opaque === true ? [toRecord('O', space, path)] : []),
    ...(redirect === undefined
      ? []
      : [toRecord('R', space, path, Buffer.from(redirect, 'base64'))]),
  ];
}

/** Makes whiteouts and marks directories; these must be there. */
export function writeMarks(stateFd: number, records: readonly MarkRecord[]): void {
  if (records.length > 0) run(stateFd, ['write'], Buffer.concat(records));
}
