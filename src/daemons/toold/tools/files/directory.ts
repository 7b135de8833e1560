// Binds an approved change of a file to the directory that the person saw: by device and inode, so
// that a link or another directory put in its place does not redirect the change.
import { posix } from 'node:path';
import { pathsAbove } from '../../../../policy/paths.ts';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import type { Basis } from '../tool.ts';
import { statIfThere } from './limits.ts';

type FoundDirectory = { path: string; realPath: string; id: string; shown: string };

/** Finds the nearest existing directory above a path. */
async function findDirectory(box: Box, path: string): Promise<FoundDirectory> {
  for (const above of pathsAbove(path)) {
    const found = await statIfThere(box, above);
    if (found === undefined) continue;
    const { real_path: realPath, file_id: id } = found;
    const [device, inode] = id.split(':');
    return { path: above, realPath, id, shown: `${realPath} (device ${device}, inode ${inode})` };
  }
  throw fault('not_found', `no directory above ${path} exists`);
}

export const describeDirectory = async (box: Box, path: string): Promise<string> =>
  (await findDirectory(box, path)).shown;

const redirectedFault = (path: string, shown: string, now: string) =>
  fault('conflict', `${path} was to be changed in ${shown}, and now leads to ${now}`, {
    hint: 'Nothing was done. Check the current state, and call again.',
    details: { reason: 'changed', directory: shown, now },
  });

/** Returns the directory that boxfs must find above the path; creates missing ones for a write. */
export async function bindDirectory(
  box: Box,
  path: string,
  basis: Basis | undefined,
): Promise<{ expected_parent?: string }> {
  const shown = basis?.directory;
  if (shown === undefined) return {};
  const now = await findDirectory(box, path);
  if (now.shown !== shown) throw redirectedFault(path, shown, now.shown);
  const parent = posix.dirname(path);
  if (now.path === parent) return { expected_parent: now.id };
  await box.files.perform({ op: 'mkdir', path: parent, make_parents: true });
  const made = await findDirectory(box, path);
  if (made.realPath !== posix.join(now.realPath, posix.relative(now.path, parent)))
    throw redirectedFault(path, shown, made.shown);
  return { expected_parent: made.id };
}
