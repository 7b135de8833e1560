// Finds every kind of secret that is known by its shape, to refuse a text that must not be kept.
import { findKeptSecrets } from './kept-rules.ts';
import { redact } from './shapes.ts';

/** As people write them down. Only what has digits: a password may also be wrong or forgotten. */
const PASSWORD_IN_WORDS =
  /\b(?:password|passphrase|passcode|pin)\b[\w ]{0,40}?(?:\bis\b|[:=])\s*["'`]?(?=\S{0,63}\d)[^\s"'`${(<]{4,64}/i;

/** Names of kinds, never values. A text that takes too long to check is `unchecked`. */
export function findSecrets(text: string): string[] {
  const kinds = new Set<string>();
  redact(text, kinds);
  for (const kind of findKeptSecrets(text) ?? ['unchecked text']) kinds.add(kind);
  if (PASSWORD_IN_WORDS.test(text)) kinds.add('password');
  return [...kinds];
}
