// Owns the signing keys in keys/: signing.pem (secret, 0600), next.pem during a rotation, and
// public.txt with every public key the log has had, oldest first.
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { fault } from '../../../wire/errors.ts';
import { isMissing, type LogDisk, readFileIfExists, replaceFile, syncDir } from './disk.ts';
import { makeSigner, parseVkey, type Signer, type Verifier } from './note.ts';

const KEYS_DIR = 'keys';
const PUBLIC_KEYS = 'public.txt';
const SIGNING = 'signing.pem';
const NEXT = 'next.pem';

/** Returns the log's public keys, oldest first; empty if it has none. */
export function readPublicKeys(logDir: string): Verifier[] {
  const text = readFileIfExists(path.join(logDir, KEYS_DIR, PUBLIC_KEYS)) ?? '';
  try {
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map(parseVkey);
  } catch (cause) {
    throw fault('log_damaged', `${KEYS_DIR}/${PUBLIC_KEYS} of ${logDir} has a malformed key`, {
      cause,
    });
  }
}

export class KeyRing {
  signer: Signer;
  /** Set from preparing a rotation until the new key takes over; survives a crash. */
  next: Signer | undefined;
  publicKeys: Verifier[];
  readonly #dir: string;
  readonly #name: string;
  readonly #disk: LogDisk;

  /** Creates a first key only if `isNewLog`; an existing log without its key is refused. */
  constructor(logDir: string, options: { name: string; disk: LogDisk; isNewLog: boolean }) {
    this.#dir = path.join(logDir, KEYS_DIR);
    this.#name = options.name;
    this.#disk = options.disk;
    fs.mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    const signer = this.#read(SIGNING);
    if (signer === undefined && !options.isNewLog) {
      throw fault('storage_broken', `the signing key ${path.join(this.#dir, SIGNING)} is missing`, {
        hint: 'Restore keys/ from a backup; without it the log can be verified but not continued.',
      });
    }
    this.signer = signer ?? this.#create(SIGNING);
    this.next = this.#read(NEXT);
    this.publicKeys = readPublicKeys(logDir);
    this.#publish(this.signer);
  }

  prepareNext(): Signer {
    this.next = this.#create(NEXT);
    return this.next;
  }

  /** Makes the next key the signing key. A checkpoint with both signatures must be on disk. */
  completeRotation(): void {
    if (this.next === undefined) return;
    this.#publish(this.next);
    try {
      fs.renameSync(path.join(this.#dir, NEXT), path.join(this.#dir, SIGNING));
      syncDir(this.#dir);
    } catch (cause) {
      throw storageFault(`making ${path.join(this.#dir, NEXT)} the signing key`, cause);
    }
    this.signer = this.next;
    this.next = undefined;
  }

  /** Discards the key of a rotation that never reached the log. */
  dropNext(): void {
    fs.rmSync(path.join(this.#dir, NEXT), { force: true });
    this.next = undefined;
  }

  #publish(key: Verifier): void {
    if (this.publicKeys.some(({ vkey }) => vkey === key.vkey)) return;
    const publicKeys = [...this.publicKeys, parseVkey(key.vkey)];
    const contents = publicKeys.map(({ vkey }) => `${vkey}\n`).join('');
    this.#write({ name: PUBLIC_KEYS, contents, mode: 0o644 });
    this.publicKeys = publicKeys;
  }

  #write({ name, ...file }: { name: string; contents: string | Buffer; mode: number }): void {
    const target = path.join(this.#dir, name);
    try {
      replaceFile(this.#disk, { path: target, ...file });
    } catch (cause) {
      throw storageFault(`writing ${target}`, cause);
    }
  }

  #create(name: string): Signer {
    const { privateKey } = generateKeyPairSync('ed25519');
    const contents = privateKey.export({ format: 'pem', type: 'pkcs8' });
    const signer = makeSigner(this.#name, privateKey);
    this.#write({ name, contents, mode: 0o600 });
    return signer;
  }

  #read(name: string): Signer | undefined {
    const file = path.join(this.#dir, name);
    try {
      const mode = fs.statSync(file).mode & 0o777;
      if ((mode & 0o077) !== 0) {
        throw fault('bad_config', `${file} can be read by others (mode ${mode.toString(8)})`, {
          hint: `Run chmod 600 ${file}, then rotate the key.`,
        });
      }
    } catch (cause) {
      if (isMissing(cause)) return undefined;
      throw cause;
    }
    const pem = readFileIfExists(file) ?? '';
    try {
      return makeSigner(this.#name, createPrivateKey(pem));
    } catch (cause) {
      throw storageFault(`reading the signing key ${file}`, cause);
    }
  }
}
