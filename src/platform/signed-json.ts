// Signs JSON documents with Ed25519 over their canonical text. The private key is in a file that
// only its owner can read.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { fault } from '../wire/errors.ts';
import { canonicalJson } from './json.ts';
import { writeAtomically } from './state-dir.ts';

export type SigningKey = {
  /** A hash of the public key. */
  keyId: string;
  publicKeyPem: string;
  signJson(value: unknown): string;
  signBytes(bytes: Uint8Array): Buffer;
};

const computeKeyId = (key: KeyObject): string =>
  createHash('sha256')
    .update(key.export({ format: 'der', type: 'spki' }))
    .digest('hex')
    .slice(0, 16);

/** Loads the key in this file, and creates it if missing. Throws if others could read it. */
export function openSigningKey(file: string): SigningKey {
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync('ed25519');
    writeAtomically(file, privateKey.export({ format: 'pem', type: 'pkcs8' }).toString());
  }
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0)
    throw fault('bad_config', `${file} has mode ${mode.toString(8)}, so other users can read it`, {
      hint: `Remove ${file}; the next start creates a new key.`,
    });
  const secret = readSecret(file);
  const publicKey = createPublicKey(secret);
  return {
    keyId: computeKeyId(publicKey),
    publicKeyPem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    signJson: (value) =>
      sign(null, Buffer.from(canonicalJson(value)), secret).toString('base64url'),
    signBytes: (bytes) => sign(null, bytes, secret),
  };
}

function readSecret(file: string): KeyObject {
  try {
    const secret = createPrivateKey(readFileSync(file, 'utf8'));
    if (secret.asymmetricKeyType === 'ed25519') return secret;
  } catch (cause) {
    throw fault('bad_config', `${file} does not contain a key`, { cause });
  }
  throw fault('bad_config', `${file} does not contain an Ed25519 key`);
}

/** True if exactly this value was signed with the private key that belongs to this one. */
export function verifyJson(value: unknown, signature: string, publicKeyPem: string): boolean {
  try {
    const bytes = Buffer.from(canonicalJson(value));
    return verify(null, bytes, createPublicKey(publicKeyPem), Buffer.from(signature, 'base64url'));
  } catch {
    return false;
  }
}
