// file.write and file.edit: change a file as a whole or in exact pieces, never over a concurrent
// change.
import * as z from 'zod';
import { fault } from '../../../../wire/errors.ts';
import { Sha256 } from '../../../../wire/primitives.ts';
import { type Box, boxPath, reads, rethrowAsUncertain, writes } from '../box.ts';
import { assertShowable, unifiedDiff } from '../diff.ts';
import { type Basis, changedFault, type Tool, tool } from '../tool.ts';
import { bindDirectory, describeDirectory } from './directory.ts';
import { assertNotGit } from './git-guard.ts';
import { LIMITS, reasonOf, TEXT_BYTES_MAX } from './limits.ts';

const DIFF_CHARS_MAX = 20_000;

export const ABSENT = 'not there';
type Before = { text: string | undefined; state: string };

/** Reads the current state; `text` is undefined when it is not text or too large. */
async function before(box: Box, path: string): Promise<Before> {
  try {
    const found = await box.files.perform({ op: 'read', path, length: TEXT_BYTES_MAX });
    const { encoding, bytes, size_bytes, sha256, modified_at, content } = found;
    const isWhole = encoding === 'utf8' && bytes === size_bytes;
    const state = sha256 ?? `${size_bytes} bytes of ${modified_at}`;
    return { text: isWhole ? content : undefined, state };
  } catch (error) {
    if (reasonOf(error) === 'not_found') return { text: '', state: ABSENT };
    throw error;
  }
}

export const isSha256 = (state: string): boolean => Sha256.safeParse(state).success;

export async function previewOfText(box: Box, path: string, after: string | undefined) {
  const { text, state } = await before(box, path);
  const basis = { directory: await describeDirectory(box, path), before: state };
  if (text === undefined || after === undefined)
    return { basis, text: `${path}: not text, or too large to show; it is replaced as a whole\n` };
  const names = { from: path, to: path };
  return { basis, text: assertShowable(unifiedDiff(text, after, names)) };
}

/** Throws when the file differs from the approved one; a hash is checked by the box itself. */
export async function assertBasis(box: Box, path: string, basis: Basis | undefined) {
  if (basis === undefined || isSha256(basis.before!)) return;
  if ((await before(box, path)).state !== basis.before) throw changedFault(path);
}

/** Rethrows a write conflict as `changed` when the call rests on an approval. */
export function asChanged(error: unknown, path: string, basis: Basis | undefined): never {
  const reason = reasonOf(error);
  const isNew = basis?.before === ABSENT && reason === 'exists';
  throw isNew || (basis !== undefined && reason === 'conflict') ? changedFault(path) : error;
}

const hasChanged = (path: string) =>
  fault('conflict', `${path} has changed since it was read`, {
    hint: 'Read it again, and make the change on what is there now.',
  });

const WriteInput = (workspace: string) =>
  z
    .strictObject({
      path: boxPath(workspace),
      text: z.string().max(4_000_000).optional(),
      base64: z.base64().max(4_000_000).optional().describe('for what is not text'),
      create_only: z.boolean().default(false),
      expected_sha256: Sha256.optional(),
      executable: z.boolean().default(false),
    })
    .refine(({ text, base64 }) => (text === undefined) !== (base64 === undefined), {
      message: 'give exactly one of text and base64',
    });

export const writeFile = (workspace: string): Tool =>
  tool({
    name: 'file.write',
    description:
      'Write a whole file, with the directories above it. It is replaced in one go. Give the ' +
      'sha256 you last read as expected_sha256, so that work of others is not overwritten; give ' +
      'create_only for a file that must be new. To change a part of a file use file.edit.',
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    ...LIMITS,
    level: 'L1',
    box: 'write',
    input: WriteInput(workspace),
    output: z.object({
      path: z.string(),
      created: z.boolean(),
      size_bytes: z.int(),
      sha256: z.string(),
    }),
    touches: ({ path }) => [writes(path)],
    touchesAll: true,
    rollback: 'Write the earlier content again; the diff shows it.',
    async preview({ path, text }, context) {
      return previewOfText(await context.box(), path, text);
    },
    async perform({ path, text, base64, expected_sha256, create_only, executable }, context) {
      const { basis } = context;
      const box = await context.box();
      await assertNotGit(box, path);
      await assertBasis(box, path, basis);
      if (basis !== undefined && expected_sha256 !== undefined && expected_sha256 !== basis.before)
        throw hasChanged(path);
      const shown = basis === undefined || !isSha256(basis.before!) ? undefined : basis.before;
      const expected = expected_sha256 ?? shown;
      const bound = await bindDirectory(box, path, basis);
      const { created, size_bytes, sha256 } = await box.files
        .perform({
          op: 'write',
          path,
          make_parents: true,
          executable,
          encoding: text === undefined ? 'base64' : 'utf8',
          content: text ?? base64 ?? '',
          ...bound,
          create_only: create_only || basis?.before === ABSENT,
          ...(expected === undefined ? {} : { expected_sha256: expected }),
        })
        .catch((error: unknown) => asChanged(error, path, basis));
      return { result: { path, created, size_bytes, sha256 } };
    },
  });

const Edit = z.strictObject({
  old_text: z.string().min(1).max(200_000).describe('exactly as in the file, and only once there'),
  new_text: z.string().max(200_000),
  all: z.boolean().default(false).describe('replace every place; else there must be exactly one'),
});
type Edit = z.output<typeof Edit>;

const shortOf = (text: string) => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** The text after the edits, in order; throws what a model can correct. */
export function applyEdits(before: string, edits: readonly Edit[], path: string) {
  let text = before;
  let replacements = 0;
  for (const { old_text, new_text, all } of edits) {
    const places = text.split(old_text).length - 1;
    const first = text.indexOf(old_text);
    if (first < 0)
      throw fault('not_found', `${path} does not contain ${shortOf(old_text)}`, {
        hint: 'Read the file again and copy the text exactly, with its spaces and line ends.',
      });
    // Also where two matches overlap, as aa in aaa: the edit is ambiguous.
    if (text.indexOf(old_text, first + 1) >= 0 && !all) {
      const often = places > 1 ? `${places} times` : 'in overlapping places';
      throw fault('conflict', `${path} contains ${shortOf(old_text)} ${often}`, {
        hint: 'Include more of the surrounding text, or set all.',
      });
    }
    // Split and join, because $ is special in the replacement of String.replace.
    text = text.split(old_text).join(new_text);
    replacements += places;
  }
  return { text, replacements };
}

async function readForEdit(box: Box, path: string): Promise<{ content: string; sha256: string }> {
  const found = await box.files.perform({ op: 'read', path, length: TEXT_BYTES_MAX });
  const { content, encoding, bytes, size_bytes, sha256 } = found;
  if (encoding === 'utf8' && bytes === size_bytes && sha256 !== null) return { content, sha256 };
  throw fault('bad_request', `${path} is not text, or longer than ${TEXT_BYTES_MAX} bytes`, {
    hint: 'Write the whole file, or change it with a command.',
  });
}

export const editFile = (workspace: string): Tool =>
  tool({
    name: 'file.edit',
    description:
      'Change parts of a text file: each edit replaces one exact piece of text. All are done or ' +
      'none. Fails when a piece is not there, is there more than once (unless all is set), or ' +
      'when the file changes meanwhile.',
    risk: 'medium',
    reversibility: 'reversible',
    // Replacing "a" by "aa" twice differs from doing it once.
    idempotent: false,
    ...LIMITS,
    level: 'L1',
    box: 'write',
    input: z.strictObject({
      path: boxPath(workspace),
      edits: z.array(Edit).min(1).max(50),
      expected_sha256: Sha256.optional().describe('as you last read it'),
    }),
    output: z.object({
      path: z.string(),
      replacements: z.int(),
      size_bytes: z.int(),
      sha256: z.string(),
      diff: z.string(),
    }),
    touches: ({ path }) => [reads(path), writes(path)],
    touchesAll: true,
    rollback: 'Edit it back; the diff shows how it was.',
    async preview({ path, edits }, context) {
      const box = await context.box();
      const { content, sha256 } = await readForEdit(box, path);
      const { text } = applyEdits(content, edits, path);
      const shown = assertShowable(unifiedDiff(content, text, { from: path, to: path }));
      const directory = await describeDirectory(box, path);
      return { text: shown, basis: { directory, before: sha256 } };
    },
    async perform({ path, edits, expected_sha256 }, context) {
      const { basis } = context;
      const box = await context.box();
      await assertNotGit(box, path);
      const found = await readForEdit(box, path);
      if (basis !== undefined && basis.before !== found.sha256) throw changedFault(path);
      if (expected_sha256 !== undefined && expected_sha256 !== found.sha256) throw hasChanged(path);
      const { text, replacements } = applyEdits(found.content, edits, path);
      const bound = await bindDirectory(box, path, basis);
      const write = {
        op: 'write',
        path,
        content: text,
        expected_sha256: found.sha256,
        ...bound,
      } as const;
      const { size_bytes, sha256 } = await box.files.perform(write).catch(rethrowAsUncertain);
      const whole = unifiedDiff(found.content, text, { from: path, to: path });
      const diff = whole.length > DIFF_CHARS_MAX ? `${whole.slice(0, DIFF_CHARS_MAX)}\n…` : whole;
      return { result: { path, replacements, size_bytes, sha256, diff } };
    },
  });
