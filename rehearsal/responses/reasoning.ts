// Encrypts reasoning for the `encrypted_content` of an item, and checks what a client returns. Only
// the form matters: a client must return it unchanged.
import { hash } from 'node:crypto';

const PREFIX = 'rehearsal-encrypted-';

export const encryptReasoning = (text: string): string =>
  `${PREFIX}${Buffer.from(text).toString('base64url')}.${hash('sha1', text).slice(0, 16)}`;

export function isOwnReasoning(encrypted: string): boolean {
  if (!encrypted.startsWith(PREFIX)) return false;
  const [body = ''] = encrypted.slice(PREFIX.length).split('.');
  return encryptReasoning(Buffer.from(body, 'base64url').toString('utf8')) === encrypted;
}
