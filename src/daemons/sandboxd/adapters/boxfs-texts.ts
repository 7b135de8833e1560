// Encodes and decodes the reading of many changed files at once (native/boxfs/read-many.c).
import { fault } from '../../../wire/errors.ts';
import { type Fields, frame, OP, pathField, u16, u32 } from './boxfs-wire.ts';

export const READ_MANY_MAX = 200;
export const TEXT_BYTES_MAX = 2 * 1024 * 1024;

/** A file's first bytes, or a link's target; `isCut`: there are more. */
export type ChangeText = { type: 'file' | 'link'; bytes: Buffer; isCut: boolean };
/** Null: there is no file and no link on this side. */
export type ChangeTexts = { path: string; before: ChangeText | null; after: ChangeText | null };

export type TextsQuery = { paths: readonly string[]; bytesMax: number };

export function encodeReadMany(
  id: number,
  [before, after]: readonly [number, number],
  { paths, bytesMax }: TextsQuery,
): Buffer {
  if (paths.length > READ_MANY_MAX || bytesMax > TEXT_BYTES_MAX)
    throw fault('too_large', `${paths.length} texts of ${bytesMax} bytes exceed the maximum`);
  return frame(OP.readMany, id, [
    u16(before),
    u16(after),
    u32(bytesMax),
    u16(paths.length),
    ...paths.map(pathField),
  ]);
}

function decodeText(fields: Fields, bytesMax: number): ChangeText | null {
  const [kind, isCut, bytes] = [fields.u8(), fields.u8() === 1, fields.data()];
  if (bytes.length > bytesMax) throw fault('bad_output', 'boxfs returned more data than requested');
  // A copy: the frame that holds it is large.
  if (kind === 1 || kind === 3)
    return { type: kind === 1 ? 'file' : 'link', bytes: Buffer.from(bytes), isCut };
  return null;
}

/** The texts of the first paths: as many as fit into one frame, and at least one. */
export function decodeReadMany(fields: Fields, { paths, bytesMax }: TextsQuery): ChangeTexts[] {
  const count = fields.u16();
  if (count > paths.length || (count === 0 && paths.length > 0))
    throw fault('bad_output', 'boxfs answered other paths');
  return paths.slice(0, count).map((path) => {
    const before = decodeText(fields, bytesMax);
    return { path, before, after: decodeText(fields, bytesMax) };
  });
}
