// File operations in a box: requests and responses. Paths are absolute inside the box, and the
// box's own mount namespace resolves them.
import * as z from 'zod';
import { Sha256, Timestamp } from '../primitives.ts';

export const FILE_READ_BYTES_MAX = 4 * 1024 * 1024;
/** Limits text or base64 in a request, so that its body stays below the maximum body size. */
const CONTENT_CHARS_MAX = 5_600_000;

const BoxPath = z
  .string()
  .max(4_095)
  .regex(/^\/[^\0]*$/, 'must be an absolute path in the box');
const Encoding = z.enum(['utf8', 'base64']);
const Kind = z.enum(['file', 'directory', 'link', 'other']);
const Pattern = z
  .string()
  .max(1_000)
  .regex(/^[^\0]*$/, 'must not contain a NUL character');

/** Device and inode, as the box sees them. */
const FileId = z.string().regex(/^\d{1,20}:\d{1,20}$/, 'must be device:inode');

/** `details.reason` of a fault about a file in a box. */
export const FileFaultReason = z.enum([
  'bad_request',
  'not_found',
  'denied',
  'outside',
  'is_directory',
  'not_directory',
  'not_regular',
  'is_link',
  'exists',
  'conflict',
  'not_empty',
  'too_large',
  'too_slow',
  'no_space',
  'bad_name',
  'bad_pattern',
  'busy',
  'read_only',
  'broken',
]);
export type FileFaultReason = z.infer<typeof FileFaultReason>;

export const FileRequest = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('stat'), path: BoxPath }),
  z.strictObject({
    op: z.literal('read'),
    path: BoxPath,
    /** Bytes from the start, or with `from_end` from the end. */
    offset: z.int().nonnegative().default(0),
    from_end: z.boolean().default(false),
    length: z.int().min(0).max(FILE_READ_BYTES_MAX).default(FILE_READ_BYTES_MAX),
    /** Hashes the whole file, even when only a part is read. */
    hash: z.boolean().default(true),
  }),
  z.strictObject({
    op: z.literal('write'),
    path: BoxPath,
    encoding: Encoding.default('utf8'),
    content: z.string().max(CONTENT_CHARS_MAX),
    /** Fails when the file exists with other content. */
    create_only: z.boolean().default(false),
    /** Fails when the current content is different. */
    expected_sha256: Sha256.optional(),
    /** Fails when the path leads to another directory than this one. */
    expected_parent: FileId.optional(),
    make_parents: z.boolean().default(false),
    executable: z.boolean().default(false),
  }),
  z.strictObject({
    op: z.literal('list'),
    path: BoxPath,
    limit: z.int().min(1).max(2_000).default(500),
    after: z.string().max(255).default(''),
  }),
  z.strictObject({
    op: z.literal('search'),
    path: BoxPath,
    mode: z.enum(['names', 'literal', 'regex']).default('literal'),
    pattern: Pattern.default(''),
    glob: Pattern.default(''),
    ignore_case: z.boolean().default(false),
    /** Includes .git and node_modules. */
    everywhere: z.boolean().default(false),
    results_max: z.int().min(1).max(2_000).default(200),
    limit_ms: z.int().min(100).max(30_000).default(10_000),
  }),
  z.strictObject({
    op: z.literal('delete'),
    path: BoxPath,
    recursive: z.boolean().default(false),
    /** Fails when it is not a file with this content. */
    expected_sha256: Sha256.optional(),
    /** As for a write. */
    expected_parent: FileId.optional(),
    limit_ms: z.int().min(100).max(30_000).default(30_000),
  }),
  z.strictObject({
    op: z.literal('mkdir'),
    path: BoxPath,
    make_parents: z.boolean().default(false),
  }),
]);
export type FileRequest = z.infer<typeof FileRequest>;
export type FileRequestInput = z.input<typeof FileRequest>;

const stat = {
  size_bytes: z.int().nonnegative(),
  mode: z.int(),
  modified_at: Timestamp,
};

export const FileAnswer = z.discriminatedUnion('op', [
  z.object({
    op: z.literal('stat'),
    kind: Kind,
    ...stat,
    real_path: z.string(),
    file_id: FileId,
  }),
  z.object({
    op: z.literal('read'),
    ...stat,
    /** The path with links resolved; empty when the box cannot determine it. */
    real_path: z.string(),
    /** Null when not requested, or when the file is too large to hash. */
    sha256: Sha256.nullable(),
    offset: z.int().nonnegative(),
    /** Number of file bytes in `content`. Text is never cut inside a character. */
    bytes: z.int().nonnegative(),
    encoding: Encoding,
    content: z.string(),
  }),
  z.object({
    op: z.literal('write'),
    created: z.boolean(),
    /** True when the file already had this content. */
    unchanged: z.boolean(),
    size_bytes: z.int(),
    modified_at: Timestamp,
    sha256: Sha256,
  }),
  z.object({
    op: z.literal('list'),
    entries: z.array(z.object({ name: z.string(), kind: Kind, ...stat })),
    /** The `after` of the next page. */
    next: z.string().nullable(),
  }),
  z.object({
    op: z.literal('search'),
    /** Paths are relative to the searched path. */
    matches: z.array(
      z.object({ path: z.string(), line: z.int(), column: z.int(), text: z.string() }),
    ),
    /** Why the search ended early. */
    cut: z.enum(['results', 'time', 'names']).nullable(),
    files: z.int(),
    binary: z.int(),
    unreadable: z.int(),
  }),
  z.object({
    op: z.literal('delete'),
    deleted: z.int(),
    /** False when part of the tree remains. */
    complete: z.boolean(),
  }),
  z.object({ op: z.literal('mkdir'), created: z.boolean() }),
]);
export type FileAnswer = z.infer<typeof FileAnswer>;

type Ops = FileRequest['op'];
export type FileResponseTo<R extends { op: Ops }> = Extract<FileAnswer, { op: R['op'] }>;
