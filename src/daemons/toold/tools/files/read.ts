// file.read, file.list and file.search: reading, in pages that fit a context.
import * as z from 'zod';
import { boxPath, READ_ONLY, reads } from '../box.ts';
import { type Tool, tool } from '../tool.ts';
import { LIMITS, PAGE_BYTES } from './limits.ts';

export const readFile = (workspace: string): Tool =>
  tool({
    name: 'file.read',
    description:
      'Read a file. Text comes as text, anything else as base64. A long file comes in pages: when ' +
      'the result has next_offset, call again with that offset. Keep sha256 to detect a change ' +
      'of the file before you write it.',
    ...READ_ONLY,
    ...LIMITS,
    level: 'L1',
    box: 'read',
    input: z.strictObject({
      path: boxPath(workspace),
      offset: z.int().nonnegative().default(0).describe('the byte to start at'),
      length: z.int().min(1).max(1_000_000).default(PAGE_BYTES).describe('maximum number of bytes'),
    }),
    output: z.object({
      path: z.string().describe('where links led'),
      text: z.string().optional(),
      base64: z.string().optional(),
      size_bytes: z.int(),
      modified_at: z.string(),
      sha256: z.string().optional().describe('of the whole file'),
      next_offset: z.int().optional(),
    }),
    touches: ({ path }) => [reads(path)],
    touchesAll: true,
    async perform({ path, offset, length }, context) {
      const { files } = await context.box();
      const found = await files.perform({ op: 'read', path, offset, length });
      const end = found.offset + found.bytes;
      return {
        result: {
          path: found.real_path === '' ? path : found.real_path,
          [found.encoding === 'utf8' ? 'text' : 'base64']: found.content,
          size_bytes: found.size_bytes,
          modified_at: found.modified_at,
          ...(found.sha256 === null ? {} : { sha256: found.sha256 }),
          ...(end < found.size_bytes && found.bytes > 0 ? { next_offset: end } : {}),
        },
      };
    },
  });

const Entry = z.object({
  name: z.string(),
  kind: z.string(),
  size_bytes: z.int(),
  modified_at: z.string(),
});

export const listFiles = (workspace: string): Tool =>
  tool({
    name: 'file.list',
    description:
      'List a directory, sorted by name. When the result has next_after, there is more: call ' +
      'again with after set to it.',
    ...READ_ONLY,
    ...LIMITS,
    level: 'L1',
    box: 'read',
    input: z.strictObject({
      path: boxPath(workspace).default(workspace),
      after: z.string().max(255).default(''),
      limit: z.int().min(1).max(1_000).default(200),
    }),
    output: z.object({
      path: z.string(),
      entries: z.array(Entry),
      next_after: z.string().optional(),
    }),
    touches: ({ path }) => [reads(path)],
    async perform({ path, after, limit }, context) {
      const { files } = await context.box();
      const { entries, next } = await files.perform({ op: 'list', path, after, limit });
      return {
        result: {
          path,
          entries: entries.map(({ mode: _, ...entry }) => entry),
          ...(next === null ? {} : { next_after: next }),
        },
      };
    },
  });

const SearchInput = (workspace: string) =>
  z
    .strictObject({
      pattern: z.string().max(1_000).default(''),
      path: boxPath(workspace).default(workspace),
      mode: z.enum(['literal', 'regex', 'names']).default('literal'),
      glob: z.string().max(1_000).default('').describe('such as *.ts or src/**/*.md'),
      ignore_case: z.boolean().default(false),
      everywhere: z.boolean().default(false).describe('also in .git and node_modules'),
      results_max: z.int().min(1).max(1_000).default(100),
    })
    .refine(({ pattern, mode, glob }) => pattern !== '' || (mode === 'names' && glob !== ''), {
      message: 'give a pattern, or mode names with a glob',
    });

const Match = z.object({
  path: z.string(),
  line: z.int().optional(),
  column: z.int().optional(),
  text: z.string().optional(),
});

const CUT_TEXT = {
  results: 'there are more results: narrow it down or ask for more',
  time: 'time was up: narrow it down with path and glob',
  names: 'a directory was too large or too deep to search completely',
} as const;

export const searchFiles = (workspace: string): Tool =>
  tool({
    name: 'file.search',
    description:
      'Search files below a directory. By default for a literal text in their lines; mode regex ' +
      'takes a POSIX extended regular expression, mode names looks at file names only. glob ' +
      'limits which files. Binary files, .git and node_modules are left out.',
    ...READ_ONLY,
    timeoutMs: 45_000,
    callsPerRunMax: 2_000,
    level: 'L1',
    box: 'read',
    input: SearchInput(workspace),
    output: z.object({
      path: z.string(),
      matches: z.array(Match),
      files: z.int().describe('number of files searched'),
      incomplete: z.string().optional(),
    }),
    touches: ({ path }) => [reads(path)],
    async perform({ path, ...how }, context) {
      const { files } = await context.box();
      const found = await files.perform({ op: 'search', path, ...how });
      const named = how.mode === 'names';
      return {
        result: {
          path,
          matches: named ? found.matches.map((match) => ({ path: match.path })) : found.matches,
          files: named ? found.matches.length : found.files,
          ...(found.cut === null ? {} : { incomplete: CUT_TEXT[found.cut] }),
        },
      };
    },
  });
