// The one fault for a log that is not as it was left, with the kind of damage for programs to read.
import { type Fault, fault } from '../../../wire/errors.ts';

type DamageKind =
  | 'truncated'
  | 'root_differs'
  | 'bad_signature'
  | 'no_checkpoint'
  | 'segment_missing'
  | 'changed';

export function damaged(kind: DamageKind, message: string, details = {}): Fault {
  return fault('log_damaged', message, { details: { kind, ...details } });
}
