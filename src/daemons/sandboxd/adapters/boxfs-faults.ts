// Maps boxfs status codes to faults that a model can act on, each with its reason.
import { type Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { FileFaultReason } from '../../../wire/sandboxd/files.ts';

type Row = { reason: FileFaultReason; code: FaultCode; text: string; hint: string };

const row = (reason: FileFaultReason, code: FaultCode, text: string, hint: string): Row => ({
  reason,
  code,
  text,
  hint,
});

/** In the order of `enum status` in native/boxfs/boxfs.h, from 1. */
const ROWS: readonly Row[] = [
  row('bad_request', 'bad_request', 'is not a valid request', 'Check the arguments.'),
  row('not_found', 'not_found', 'does not exist', 'List its parent directory to see what exists.'),
  row(
    'denied',
    'denied',
    'may not be used by this agent, or is protected',
    'Work on another path, or ask a person to allow this one.',
  ),
  row(
    'outside',
    'denied',
    'leads out of its root, through a link or ..',
    'Use the path of the file itself; an absolute link counts as leading out.',
  ),
  row('is_directory', 'bad_request', 'is a directory', 'Name a file in it, or list it.'),
  row(
    'not_directory',
    'bad_request',
    'is not a directory, or a part of it is not',
    'Check the path.',
  ),
  row(
    'not_regular',
    'denied',
    'is a pipe, socket or device',
    'Only regular files can be read and written.',
  ),
  row(
    'is_link',
    'denied',
    'is a symbolic link, and links are not written through',
    'Write to the file it points to.',
  ),
  row(
    'exists',
    'conflict',
    'already exists',
    'Read it first, then edit it or choose another name.',
  ),
  row(
    'conflict',
    'conflict',
    'has changed since it was read',
    'Read it again, and make the change on what is there now.',
  ),
  row('not_empty', 'conflict', 'is a directory that is not empty', 'Delete what is in it first.'),
  row('too_large', 'too_large', 'is too large', 'Read or write it in parts.'),
  row(
    'too_slow',
    'limit',
    'took too long',
    'Narrow it down: a smaller directory, a glob, or a literal instead of a regular expression.',
  ),
  row(
    'no_space',
    'limit',
    'could not be written: no space left',
    'Delete files that are not needed.',
  ),
  row('bad_name', 'bad_request', 'is not a valid name', 'Use a shorter or plainer name.'),
  row(
    'bad_pattern',
    'bad_request',
    'was not searched: the pattern is invalid',
    'Correct the pattern.',
  ),
  row('busy', 'overloaded', 'is temporarily unavailable', 'Try again in a moment.'),
  row('read_only', 'denied', 'may only be read by this agent', 'Write in the workspace instead.'),
  row('broken', 'unavailable', 'is unavailable', 'Try again, or work on another path.'),
];

/** The reason that a status stands for. */
export const statusReason = (status: number): FileFaultReason =>
  (ROWS[status - 1] ?? ROWS.at(-1)!).reason;

export function statusFault(status: number, path: string, detail: string): Fault {
  const { reason, code, text, hint } = ROWS[status - 1] ?? ROWS.at(-1)!;
  const suffix =
    reason === 'bad_pattern' || reason === 'broken' ? ` (${detail.slice(0, 200)})` : '';
  return fault(code, `${path} ${text}${suffix}`, { hint, details: { reason } });
}
