// What git's tools share: their arguments, none of which can be taken for an option, and what those
// that change a repository say of themselves.
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

/** In the repository, relative to its top; taken literally. */
export const RepoPath = z
  .string()
  .min(1)
  .max(4_000)
  .regex(/^[^\0-][^\0]*$/, 'must be a path that does not begin with -');

/** No program of the repository's shows a difference or turns a file into text. */
export const PLAIN = ['--no-ext-diff', '--no-textconv', '--no-color'] as const;
export const NO_SUBMODULES = '--ignore-submodules=all';
