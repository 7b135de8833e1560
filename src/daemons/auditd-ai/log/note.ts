// Formats, parses, signs and checks C2SP signed notes and checkpoints (c2sp.org/signed-note,
// c2sp.org/tlog-checkpoint) with Ed25519 keys.
import { createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';
import { fault } from '../../../wire/errors.ts';
import { HASH_BYTES, type TreeHead } from './merkle.ts';

const ED25519 = 0x01;
const PUBLIC_KEY_BYTES = 32;
const NOTE_CHARS_MAX = 100_000;
const SIGNATURES_MAX = 100;

export type Verifier = {
  name: string;
  keyId: number;
  /** `<name>+<key id>+<base64>`: the public key as text. */
  vkey: string;
  verify(text: string, signature: Buffer): boolean;
};
export type Signer = Verifier & { sign(text: string): Buffer };

type NoteSignature = { name: string; keyId: number; signature: Buffer };
export type Note = { text: string; signatures: NoteSignature[] };
export type Checkpoint = TreeHead & { origin: string };

const malformedNoteFault = (what: string) => fault('bad_request', `malformed signed note: ${what}`);

/** Accepts only the canonical encoding, so that the same bytes have one text. */
function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

function isKeyName(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be in a name
  return name !== '' && !/[\s+\x00-\x1f\x7f\x85]/u.test(name);
}

function makeKeyId(name: string, publicKey: Buffer): number {
  const input = Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(ED25519), publicKey]);
  return hash('sha256', input, 'buffer').readUInt32BE(0);
}

const formatKeyId = (keyId: number): string => keyId.toString(16).padStart(8, '0');

function makeVerifier(name: string, publicKey: Buffer): Verifier {
  const keyId = makeKeyId(name, publicKey);
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') };
  const key = createPublicKey({ key: jwk, format: 'jwk' });
  const encoded = Buffer.concat([Buffer.of(ED25519), publicKey]).toString('base64');
  return {
    name,
    keyId,
    vkey: `${name}+${formatKeyId(keyId)}+${encoded}`,
    verify: (text, signature) => verify(null, Buffer.from(text), key, signature),
  };
}

export function parseVkey(vkey: string): Verifier {
  const [, name, id, encoded] = /^([^+]+)\+([0-9a-f]{8})\+([^\s]+)$/.exec(vkey) ?? [];
  const bytes = encoded === undefined ? undefined : decodeBase64(encoded);
  if (name === undefined || !isKeyName(name) || bytes === undefined) {
    throw fault('bad_request', 'malformed key: it must look like <name>+<8 hex digits>+<base64>');
  }
  if (bytes.length !== 1 + PUBLIC_KEY_BYTES || bytes[0] !== ED25519) {
    throw fault('bad_request', `the key of ${name} is not an Ed25519 key`);
  }
  const verifier = makeVerifier(name, bytes.subarray(1));
  if (formatKeyId(verifier.keyId) !== id) {
    throw fault('bad_request', `the key of ${name} does not have the id ${id}`);
  }
  return verifier;
}

export function makeSigner(name: string, privateKey: KeyObject): Signer {
  if (!isKeyName(name)) {
    throw fault('bad_config', `'${name}' cannot name a key: it must have no space and no plus`);
  }
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' });
  return {
    ...makeVerifier(name, Buffer.from(x!, 'base64url')),
    sign: (text) => sign(null, Buffer.from(text), privateKey),
  };
}

export function signNote(text: string, signers: readonly Signer[]): string {
  const lines = signers.map((signer) => {
    const keyId = Buffer.alloc(4);
    keyId.writeUInt32BE(signer.keyId);
    const signed = Buffer.concat([keyId, signer.sign(text)]);
    return `— ${signer.name} ${signed.toString('base64')}\n`;
  });
  return `${text}\n${lines.join('')}`;
}

function parseSignature(line: string): NoteSignature {
  const [, name, encoded] = /^— (\S+) (\S+)$/.exec(line) ?? [];
  const bytes = encoded === undefined ? undefined : decodeBase64(encoded);
  if (name === undefined || !isKeyName(name) || bytes === undefined || bytes.length < 5) {
    throw malformedNoteFault('a signature line must be an em dash, a name and base64');
  }
  return { name, keyId: bytes.readUInt32BE(0), signature: bytes.subarray(4) };
}

export function parseNote(note: string): Note {
  if (note.length > NOTE_CHARS_MAX) throw malformedNoteFault('it is too long');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the form forbids all but the newline
  if (/[\x00-\x09\x0b-\x1f\ufffd]/.test(note)) {
    throw malformedNoteFault('it has a control character or is not UTF-8');
  }
  const middle = note.lastIndexOf('\n\n');
  if (middle < 0 || !note.endsWith('\n'))
    throw malformedNoteFault('it has no signatures or no last newline');
  const lines = note.slice(middle + 2, -1).split('\n');
  if (lines.length > SIGNATURES_MAX) throw malformedNoteFault('it has too many signatures');
  return { text: note.slice(0, middle + 1), signatures: lines.map(parseSignature) };
}

/** Returns the known keys with a valid and with a wrong signature on the note. */
export function checkNote(note: Note, known: readonly Verifier[]) {
  const valid: Verifier[] = [];
  const wrong: Verifier[] = [];
  for (const { name, keyId, signature } of note.signatures) {
    const verifier = known.find((key) => key.name === name && key.keyId === keyId);
    if (verifier === undefined) continue;
    const list = verifier.verify(note.text, signature) ? valid : wrong;
    if (!list.includes(verifier)) list.push(verifier);
  }
  return { valid, wrong };
}

export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

export function parseCheckpoint(text: string): Checkpoint {
  const [origin, size, root, ...more] = text.split('\n');
  const bytes = decodeBase64(root ?? '');
  if (origin === undefined || origin === '' || more.pop() !== '' || more.includes('')) {
    throw malformedNoteFault('a checkpoint is three or more lines that are not empty');
  }
  if (size === undefined || !/^(0|[1-9][0-9]{0,15})$/.test(size) || !Number.isSafeInteger(+size)) {
    throw malformedNoteFault('the second line of a checkpoint is the size in decimal');
  }
  if (bytes?.length !== HASH_BYTES)
    throw malformedNoteFault('the third line is 32 bytes in base64');
  return { origin, size: Number(size), root: bytes };
}
