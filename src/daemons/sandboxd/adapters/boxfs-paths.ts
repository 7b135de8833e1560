// Paths of boxfs as strings, without loss: Linux names are bytes. A byte that is not part of valid
// UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF (PEP 383); JSON keeps it, no valid name has it.
import { fault } from '../../../wire/errors.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const ESCAPE = 0xdc00;

function decodeValid(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns the character at the position, and its length in bytes; undefined if it is not UTF-8. */
function decodeCharacter(bytes: Buffer, at: number): { text: string; length: number } | undefined {
  for (let length = 1; length <= 4 && at + length <= bytes.length; length++) {
    const text = decodeValid(bytes.subarray(at, at + length));
    if (text !== undefined) return { text, length };
  }
  return undefined;
}

export function decodePath(bytes: Buffer): string {
  const valid = decodeValid(bytes);
  if (valid !== undefined) return valid;
  let path = '';
  for (let at = 0; at < bytes.length; ) {
    const found = decodeCharacter(bytes, at);
    path += found?.text ?? String.fromCharCode(ESCAPE + bytes[at]!);
    at += found?.length ?? 1;
  }
  return path;
}

export function encodePath(path: string): Buffer {
  if (path.isWellFormed()) return Buffer.from(path);
  const parts = [...path].map((character) => {
    const code = character.codePointAt(0)!;
    if (code < 0xdc80 || code > 0xdcff) return Buffer.from(character);
    return Buffer.from([code - ESCAPE]);
  });
  const bytes = Buffer.concat(parts);
  // Escapes that together are valid UTF-8 would name a file that has another path.
  if (decodePath(bytes) !== path)
    throw fault('bad_request', 'the path is not one that a list of changes contains');
  return bytes;
}
