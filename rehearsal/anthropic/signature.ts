// Signs thinking blocks. The signature is not secret: it only detects changes to a block, which the
// real API refuses.
import { hash } from 'node:crypto';

export function signThinking(thinking: string): string {
  return hash('sha256', `rehearsal thinking\n${thinking}`, 'base64');
}
