// file.delete and delete.recursive. What is gone is gone, whoever did it: asked again, the answer
// is that nothing was there.
import * as z from 'zod';
import { boxPath, deletes, deletesTree } from '../box.ts';
import { type Tool, type ToolContext, tool } from '../tool.ts';
import { assertNotGit } from './git-guard.ts';
import { LIMITS, reasonOf } from './limits.ts';
import { previewOfText } from './write.ts';

async function deleteAt(context: ToolContext, path: string, recursive: boolean) {
  const box = await context.box();
  await assertNotGit(box, path);
  try {
    const { deleted, complete } = await box.files.perform({ op: 'delete', path, recursive });
    return { path, deleted, complete };
  } catch (error) {
    if (reasonOf(error) === 'not_found') return { path, deleted: 0, complete: true };
    throw error;
  }
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
    async preview({ path }, context) {
      const box = await context.box();
      const found = await box.files.perform({ op: 'stat', path }).catch((error: unknown) => {
        if (reasonOf(error) === 'not_found') return undefined;
        throw error;
      });
      if (found?.kind === 'file') return previewOfText(box, path, '');
      return `${path}: ${found?.kind ?? 'is not there'}\n`;
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
    async preview({ path }, context) {
      const { files } = await context.box();
      const ask = { op: 'search', path, mode: 'names', results_max: 500 } as const;
      const { matches, cut } = await files.perform({ ...ask, glob: '*', everywhere: true });
      // A name may hold line ends, and must not pass for several.
      const lines = matches.map((match) => `- ${JSON.stringify(`${path}/${match.path}`)}`);
      const more = cut === null ? [] : ['and more'];
      return [`${path}: everything in it`, ...lines, ...more, ''].join('\n');
    },
    async perform({ path }, context) {
      return { result: await deleteAt(context, path, true) };
    },
  });
