// Decides whether mail of one sender in one thread goes round in circles: a program that answers
// every mail does not write like a person. Pure.
import { isSameText } from './similar-text.ts';

export const MAIL_WINDOW_MS = 3_600_000;
/** A person may say the same again later. */
const REPEAT_WINDOW_MS = 600_000;

export type MailWord = { text: string; atMs: number };

/** `words`: what this sender wrote in the thread within the window. Returns why it is refused. */
export function findMailLoop(
  words: readonly MailWord[],
  next: MailWord,
  { turnsMax, repeatsMax }: { turnsMax: number; repeatsMax: number },
): string | undefined {
  const recent = words.filter(({ atMs }) => next.atMs - atMs < MAIL_WINDOW_MS);
  if (turnsMax > 0 && recent.length >= turnsMax)
    return `you wrote ${recent.length} mails in this thread within an hour, which is its limit`;
  const same = recent.filter(
    ({ text, atMs }) => next.atMs - atMs < REPEAT_WINDOW_MS && isSameText(text, next.text),
  );
  if (repeatsMax > 0 && same.length > repeatsMax)
    return `you wrote the same in this thread ${same.length} times within ten minutes`;
  return undefined;
}
