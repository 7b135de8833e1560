// A verifier of inclusion proofs written from RFC 6962 and the C2SP signed-note format alone,
// without product code, as a third party with the public key would write it.
import { createHash, createPublicKey, verify } from 'node:crypto';

export type Proof = {
  event: string;
  index: number;
  size: number;
  hashes: string[];
  checkpoint: string;
};

const sha256 = (...parts: Uint8Array[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const DER_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

/** Returns size and root of the note if this key has signed it. */
function readNote(note: string, vkey: string): { size: number; root: Buffer } | undefined {
  const [name = '', id = ''] = vkey.split('+');
  const key = Buffer.from(vkey.slice(name.length + id.length + 2), 'base64');
  const publicKey = createPublicKey({
    key: Buffer.concat([DER_HEAD, key.subarray(1)]),
    format: 'der',
    type: 'spki',
  });
  const end = note.lastIndexOf('\n\n') + 1;
  const text = note.slice(0, end);
  const isSigned = note
    .slice(end + 1)
    .split('\n')
    .filter((line) => line.startsWith(`— ${name} `))
    .map((line) => Buffer.from(line.slice(`— ${name} `.length), 'base64'))
    .filter((signature) => signature.subarray(0, 4).toString('hex') === id)
    .some((signature) => verify(null, Buffer.from(text), publicKey, signature.subarray(4)));
  const [, size, root = ''] = text.split('\n');
  return isSigned ? { size: Number(size), root: Buffer.from(root, 'base64') } : undefined;
}

/** The root over `size` leaves, from one leaf and its path, as RFC 6962 2.1 defines the tree. */
function rootFrom(leaf: Buffer, index: number, size: number, path: Buffer[]): Buffer {
  if (size === 1) return leaf;
  let half = 1;
  while (half * 2 < size) half *= 2;
  const sibling = path.at(-1)!;
  const rest = path.slice(0, -1);
  return index < half
    ? sha256(Buffer.of(1), rootFrom(leaf, index, half, rest), sibling)
    : sha256(Buffer.of(1), sibling, rootFrom(leaf, index - half, size - half, rest));
}

export function isProven(proof: Proof, vkey: string): boolean {
  const note = readNote(proof.checkpoint, vkey);
  if (note === undefined || note.size !== proof.size || proof.index >= proof.size) return false;
  const leaf = sha256(Buffer.of(0), Buffer.from(proof.event));
  const path = proof.hashes.map((hash) => Buffer.from(hash, 'base64'));
  return rootFrom(leaf, proof.index, proof.size, path).equals(note.root);
}
