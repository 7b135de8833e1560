// Checks what a text contains, by its shape: a secret is refused before anything is written, and
// personal data gets its mark. Pure.
import { findSecrets } from '../../../platform/secrets/find-secrets.ts';
import { findPersonalData } from '../../../platform/secrets/personal-data.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';

/** Every part of a memory that its author words. */
export type Worded = {
  [part in 'text' | 'caption' | 'speaker' | 'ref' | 'thread']?: string | undefined;
};

const listTexts = ({ text, caption, speaker, ref, thread }: Worded): string[] =>
  [text, caption, speaker, ref, thread].filter((part) => part !== undefined);

/** The fault names the kinds, never the value. */
export function assertNoSecrets(memories: readonly Worded[]): void {
  for (const memory of memories) {
    const kinds = new Set(listTexts(memory).flatMap(findSecrets));
    if (kinds.size > 0)
      throw fault(
        'bad_request',
        `memory keeps no secrets, and the text has: ${[...kinds].join(', ')}`,
        {
          hint: 'Leave it out, and name where it is kept instead.',
          details: { reason: 'secret', kinds: [...kinds] },
        },
      );
  }
}

export const markPersonal = (memory: Worded): Label[] =>
  listTexts(memory).some((part) => findPersonalData(part).length > 0) ? ['personal'] : [];
