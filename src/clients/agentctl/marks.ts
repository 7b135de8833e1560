// The marks that a run can have, for options.
import type { Label } from '../../wire/primitives.ts';

export const MARKS = ['outside', 'secret', 'personal'] as const satisfies readonly Label[];
