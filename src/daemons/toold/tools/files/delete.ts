// file.delete and delete.recursive. Idempotent: deleting a missing file deletes nothing.
import { posix } from 'node:path';
import * as z from 'zod';
import { type Box, boxPath, deletes, deletesTree } from '../box.ts';
import { changedFault, type Tool, type ToolContext, tool } from '../tool.ts';
import { bindDirectory, describeDirectory } from './directory.ts';
import { assertNotGit } from './git-guard.ts';
import { LIMITS, reasonOf, statIfThere } from './limits.ts';
import { describeTree } from './tree.ts';
import { ABSENT, asChanged, isSha256, previewOfText } from './write.ts';

async function deleteAt(context: ToolContext, path: string, recursive: boolean) {
  const { basis } = context;
  const box = await context.box();
  await assertNotGit(box, path);
  const nothing = { path, deleted: 0, complete: true };
  const shown = basis?.before;
  const expected = shown !== undefined && isSha256(shown) ? { expected_sha256: shown } : {};
  // A file with a hash is compared by the delete itself.
  if (shown !== undefined && !isSha256(shown)) {
    if ((await readState(box, path)).state !== shown) throw changedFault(path);
    if (shown === ABSENT) return nothing;
  }
  try {
    const bound = await bindDirectory(box, path, basis);
    const ask = { op: 'delete', path, recursive, ...expected, ...bound } as const;
    const { deleted, complete } = await box.files.perform(ask);
    return { path, deleted, complete };
  } catch (error) {
    if (reasonOf(error) === 'not_found') return nothing;
    return asChanged(error, path, basis);
  }
}

type EntryState = { state: string; text: string; isDirectory?: true };

/** Reads what would be deleted. A link is not followed. */
async function readState(box: Box, path: string): Promise<EntryState> {
  const found = await statIfThere(box, path);
  if (found === undefined) return { state: ABSENT, text: `${path}: does not exist\n` };
  const { kind, modified_at, real_path } = found;
  const parent = await statIfThere(box, posix.dirname(path));
  if (real_path !== posix.join(parent?.real_path ?? '/', posix.basename(path)))
    return { state: `link to ${real_path}`, text: `${path}: link to ${real_path}\n` };
  const isDirectory = kind === 'directory' ? { isDirectory: true as const } : {};
  if (kind !== 'file')
    return { state: `${kind} of ${modified_at}`, text: `${path}: ${kind}\n`, ...isDirectory };
  const { text, basis } = await previewOfText(box, path, '');
  return { state: basis.before, text };
}

const Deleted = z.object({
  path: z.string(),
  deleted: z.int().describe('how many files and directories; 0 when it was not there'),
});

export const deleteFile = (workspace: string): Tool =>
  tool({
    name: 'file.delete',
    description: 'Delete one file, link or empty directory. It cannot be brought back.',
    risk: 'medium',
    reversibility: 'irreversible',
    idempotent: true,
    ...LIMITS,
    level: 'L1',
    box: 'write',
    input: z.strictObject({ path: boxPath(workspace) }),
    output: Deleted,
    touches: ({ path }) => [deletes(path)],
    touchesAll: true,
    async preview({ path }, context) {
      const box = await context.box();
      const { state, text } = await readState(box, path);
      return { text, basis: { directory: await describeDirectory(box, path), before: state } };
    },
    async perform({ path }, context) {
      const { deleted } = await deleteAt(context, path, false);
      return { result: { path, deleted } };
    },
  });

export const deleteTree = (workspace: string): Tool =>
  tool({
    name: 'delete.recursive',
    description:
      'Delete a directory with everything in it. It cannot be brought back. Links in it are ' +
      'removed, not followed.',
    risk: 'high',
    reversibility: 'irreversible',
    idempotent: true,
    timeoutMs: 60_000,
    callsPerRunMax: 200,
    level: 'L1',
    box: 'write',
    input: z.strictObject({ path: boxPath(workspace) }),
    output: Deleted.extend({
      complete: z.boolean().describe('false: a part is still there, because of rights or time'),
    }),
    touches: ({ path }) => [deletesTree(path)],
    previewsFiles: true,
    async preview({ path }, context) {
      const box = await context.box();
      const { text, isDirectory } = await readState(box, path);
      const directory = `directory: ${await describeDirectory(box, path)}\n`;
      return `${directory}${isDirectory ? await describeTree(box, path) : text}`;
    },
    async perform({ path }, context) {
      return { result: await deleteAt(context, path, true) };
    },
  });
