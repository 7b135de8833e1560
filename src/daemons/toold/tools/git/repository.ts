// Finds the repository of a path, and checks that everything it points to lies in the workspace:
// git itself would follow a repository's pointers anywhere.
import { posix } from 'node:path';
import { isWithin } from '../../../../policy/paths.ts';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import { statIfThere } from '../files/limits.ts';

export type Repository = {
  /** The root of the working tree. */
  top: string;
  gitDir: string;
  /** Differs from gitDir only in a linked worktree. */
  commonDir: string;
};

const POINTER_BYTES_MAX = 65_536;
const ALTERNATES_MAX = 8;

const outsideFault = (what: string, why: string) =>
  fault('denied', `${what} ${why}`, {
    hint: 'Only repositories that lie in the workspace as a whole can be used.',
    details: { reason: 'outside' },
  });

type FoundEntry = { kind: string; path: string };

/** Resolves a path; undefined when it does not exist. Throws when it is outside. */
async function statInside(
  box: Box,
  path: string,
  workspace: string,
): Promise<FoundEntry | undefined> {
  if (!isWithin(path, workspace)) throw outsideFault(path, 'lies outside the workspace');
  const found = await statIfThere(box, path);
  if (found === undefined) return undefined;
  const { kind, real_path } = found;
  if (!isWithin(real_path, workspace)) throw outsideFault(path, 'leads out of the workspace');
  return { kind, path: real_path };
}

/** Reads a small file that holds a path of git's; undefined when it does not exist. */
async function readPointer(box: Box, path: string, workspace: string): Promise<string | undefined> {
  const found = await statInside(box, path, workspace);
  if (found === undefined) return undefined;
  const read = { op: 'read', path, length: POINTER_BYTES_MAX, hash: false } as const;
  const { content, encoding, size_bytes, bytes } = await box.files.perform(read);
  if (encoding === 'utf8' && bytes === size_bytes) return content;
  throw outsideFault(path, 'cannot be read as a pointer of git');
}

async function resolveDirectory(box: Box, path: string, workspace: string): Promise<string> {
  const found = await statInside(box, path, workspace);
  if (found?.kind === 'directory') return found.path;
  throw fault('not_found', `${path}, which the repository points to, is not a directory`);
}

async function findGitDir(box: Box, top: string, workspace: string): Promise<string | undefined> {
  const dotGit = posix.join(top, '.git');
  const found = await statInside(box, dotGit, workspace);
  if (found === undefined) return undefined;
  if (found.kind === 'directory') return found.path;
  const text = await readPointer(box, dotGit, workspace);
  const target = /^gitdir: (.+?)\n*$/s.exec(text ?? '')?.[1];
  if (target === undefined) throw outsideFault(dotGit, 'is not what git writes');
  return resolveDirectory(box, posix.resolve(top, target), workspace);
}

/** Checks the object directories that this one borrows from, recursively. */
async function checkAlternates(box: Box, objects: string, workspace: string): Promise<void> {
  const waiting = [await resolveDirectory(box, objects, workspace)];
  const seen = new Set<string>();
  for (let dir = waiting.pop(); dir !== undefined; dir = waiting.pop()) {
    if (seen.has(dir)) continue;
    seen.add(dir);
    if (seen.size > ALTERNATES_MAX) throw outsideFault(objects, 'borrows from too many others');
    const text = await readPointer(box, posix.join(dir, 'info/alternates'), workspace);
    const lines = (text ?? '').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    for (const line of lines) {
      if (line.startsWith('"')) throw outsideFault(dir, 'borrows from a quoted path');
      waiting.push(await resolveDirectory(box, posix.resolve(dir, line), workspace));
    }
  }
}

export async function findRepository(box: Box, from: string): Promise<Repository> {
  const { workspace } = box.roots;
  if (!isWithin(from, workspace)) throw outsideFault(from, 'lies outside the workspace');
  for (let top = from; ; top = posix.dirname(top)) {
    const gitDir = await findGitDir(box, top, workspace);
    if (gitDir !== undefined) {
      const common = await readPointer(box, posix.join(gitDir, 'commondir'), workspace);
      const commonDir =
        common === undefined
          ? gitDir
          : await resolveDirectory(box, posix.resolve(gitDir, common.trim()), workspace);
      await checkAlternates(box, posix.join(commonDir, 'objects'), workspace);
      return { top, gitDir, commonDir };
    }
    if (top === workspace) break;
  }
  throw fault('not_found', `git repository not found at ${from}`, {
    hint: 'Name a directory of a repository in the workspace.',
  });
}
