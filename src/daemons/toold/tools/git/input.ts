// Arguments that the git tools share, none of which can be taken for an option, and the properties
// of tools that change a repository.
import * as z from 'zod';
import { boxPath } from '../box.ts';

export const CHANGES = {
  risk: 'medium',
  reversibility: 'reversible',
  idempotent: false,
  timeoutMs: 120_000,
  callsPerRunMax: 500,
  level: 'L2',
  box: 'write',
} as const;

export const repo = (workspace: string) =>
  boxPath(workspace).default(workspace).describe('a directory of the repository');

export const Ref = z
  .string()
  .max(200)
  .regex(/^[\w@][\w./@{}^~+-]*$/, 'must be a branch, tag or commit')
  .refine((ref) => !ref.includes('..'), 'must be one commit, not a range');

export const BranchName = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_][\w./-]*$/, 'must be a name such as fix/slow-query')
  .refine((name) => !/\.\.|\/\/|\.lock(\/|$)|[./]$/.test(name), 'is not a name git takes');

/** Relative to the top of the repository; no pathspec magic. */
export const RepoPath = z
  .string()
  .min(1)
  .max(4_000)
  .regex(/^[^\0-][^\0]*$/, 'must be a path that does not begin with -');

/** Disables the repository's external diff and textconv programs. */
export const PLAIN = ['--no-ext-diff', '--no-textconv', '--no-color'] as const;
export const NO_SUBMODULES = '--ignore-submodules=all';
