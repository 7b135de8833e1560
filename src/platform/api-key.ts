// API keys as text: agentd_, then an id, the secret and a checksum. The prefix lets scanners find a
// leaked one, and the checksum tells a mistyped one from an unknown one without a lookup.
import { createHash, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { fault } from '../wire/errors.ts';
import type { Random } from './ids.ts';

const PREFIX = 'agentd_';
const ID_CHARS = 12;
/** 62 to the power of 43 is more than 2 to the power of 256. */
const SECRET_CHARS = 43;
const CHECKSUM_CHARS = 6;
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const FORM = new RegExp(`^${PREFIX}[0-9A-Za-z]{${ID_CHARS + SECRET_CHARS + CHECKSUM_CHARS}}$`);

export type NewApiKey = { text: string; id: string; hash: Buffer };
/** `id` is not secret: it finds the hash to compare with. */
export type SentApiKey = { id: string; hash: Buffer };

/** True for whatever claims to be an API key, valid or not. */
export function isApiKey(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** The first characters of a key, by which people recognize it; they do not help to guess it. */
export function writeKeyPrefix(id: string): string {
  return `${PREFIX}${id}`;
}

export function makeApiKey(random: Random): NewApiKey {
  const id = drawDigits(random, ID_CHARS);
  const body = `${PREFIX}${id}${drawDigits(random, SECRET_CHARS)}`;
  const text = body + checksumOf(body);
  return { text, id, hash: hashOf(text) };
}

/** Throws if it is not a whole key. */
export function readApiKey(text: string): SentApiKey {
  const body = text.slice(0, -CHECKSUM_CHARS);
  if (!FORM.test(text) || checksumOf(body) !== text.slice(-CHECKSUM_CHARS))
    throw fault('unauthenticated', 'the API key is mistyped or cut off: its checksum is wrong', {
      hint: 'Copy the whole key, or create another: agentctl key create NAME.',
      details: { reason: 'malformed' },
    });
  return { id: text.slice(PREFIX.length, PREFIX.length + ID_CHARS), hash: hashOf(text) };
}

export function isSameHash(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

/**
 * One SHA-256, unsalted, is enough here: a slow hash protects passwords, which are guessed from a
 * list. Nobody can list 2^256 secrets, and a slow hash would have to run for every request.
 */
function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Every digit is equally likely: bytes from the largest multiple of 62 on are drawn again. */
function drawDigits(random: Random, count: number): string {
  const limit = 256 - (256 % DIGITS.length);
  let text = '';
  while (text.length < count)
    for (const byte of random(count))
      if (byte < limit && text.length < count) text += DIGITS[byte % DIGITS.length];
  return text;
}

function checksumOf(body: string): string {
  let rest = crc32(body);
  let text = '';
  for (let i = 0; i < CHECKSUM_CHARS; i++) {
    text = DIGITS[rest % DIGITS.length] + text;
    rest = Math.floor(rest / DIGITS.length);
  }
  return text;
}
