// Builds the fault for a damaged log, with a machine-readable kind of damage.
import { type Fault, fault } from '../../../wire/errors.ts';

type DamageKind =
  | 'truncated'
  | 'root_differs'
  | 'bad_signature'
  | 'no_checkpoint'
  | 'segment_missing'
  | 'changed';

export function damageFault(kind: DamageKind, message: string, details = {}): Fault {
  return fault('log_damaged', message, { details: { kind, ...details } });
}
