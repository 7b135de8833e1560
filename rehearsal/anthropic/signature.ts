// The signature of a thinking block. Not a secret: it only shows whether a block came back as it
// was sent, which is what the real API insists on.
import { hash } from 'node:crypto';

export function signThinking(thinking: string): string {
  return hash('sha256', `rehearsal thinking\n${thinking}`, 'base64');
}
