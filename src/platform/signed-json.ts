// Signing JSON documents with a key of our own: Ed25519 over the canonical text. The secret half
// stays in one file that only its owner can read; what is signed means nothing here.
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
  /** Names the key; follows from its public half. */
  keyId: string;
  publicKeyPem: string;
  signJson(value: unknown): string;
  signBytes(bytes: Uint8Array): Buffer;
};

const keyIdOf = (key: KeyObject): string =>
  createHash('sha256')
    .update(key.export({ format: 'der', type: 'spki' }))
    .digest('hex')
    .slice(0, 16);

/** The key in this file, made at first need; refused when others could read it. */
export function openSigningKey(file: string): SigningKey {
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync('ed25519');
    writeAtomically(file, privateKey.export({ format: 'pem', type: 'pkcs8' }).toString());
  }
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0)
    throw fault(
      'bad_config',
      `${file} has mode ${mode.toString(8)}, so others could sign with it`,
      {
        hint: `rm ${file}, and the next start makes a new one.`,
      },
    );
  const secret = readSecret(file);
  const open = createPublicKey(secret);
  return {
    keyId: keyIdOf(open),
    publicKeyPem: open.export({ format: 'pem', type: 'spki' }).toString(),
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
    throw fault('bad_config', `${file} does not hold a key`, { cause });
  }
  throw fault('bad_config', `${file} does not hold an Ed25519 key`);
}

/** True when exactly this value was signed with the secret half of this key. */
export function verifyJson(value: unknown, signature: string, publicKeyPem: string): boolean {
  try {
    const bytes = Buffer.from(canonicalJson(value));
    return verify(null, bytes, createPublicKey(publicKeyPem), Buffer.from(signature, 'base64url'));
  } catch {
    return false;
  }
}
