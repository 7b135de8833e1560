// Makes and checks inclusion proofs: an event, the hashes from it to a signed root, and the signed
// note. With the public key a proof can be checked without this program.
import { fault } from '../../../wire/errors.ts';
import type { AuditLog } from './log.ts';
import { checkInclusion, hashLeaf } from './merkle.ts';
import { checkNote, parseCheckpoint, parseNote, parseVkey } from './note.ts';

/**
 * `root` and `hashes` are base64; `event` is the line as stored; `checkpoint` is the signed note.
 */
export type InclusionProof = {
  event: string;
  index: number;
  size: number;
  root: string;
  hashes: string[];
  checkpoint: string;
  vkey: string;
};

/** Proves that the log has event `seq`. Signs first if no checkpoint covers it yet. */
export async function proveEvent(log: AuditLog, seq: number): Promise<InclusionProof> {
  const [event] = seq >= 0 && seq < log.size ? log.readRange(seq, 1) : [];
  if (event === undefined) throw fault('not_found', `the log has no event ${seq}`);
  const proof = await makeProof(log, seq, event);
  if (proof !== undefined) return proof;
  throw fault('log_damaged', `event ${seq} is not the one the checkpoint covers`);
}

/** Proves that this line is event `seq`, also if the log has only its hash. */
export async function proveLine(log: AuditLog, seq: number, line: string): Promise<InclusionProof> {
  // Compared first, so that no line a caller makes up has the tree rebuilt.
  const isArchived = seq < log.firstSeq;
  const isSame = isArchived || log.readRange(seq, 1)[0] === line;
  const proof = isSame ? await makeProof(log, seq, line) : undefined;
  if (proof !== undefined) return proof;
  throw fault('bad_request', `this line is not event ${seq} of the log, or not as it was written`, {
    hint: 'Verify the archive: agentctl audit verify --archive DIR.',
  });
}

async function makeProof(
  log: AuditLog,
  seq: number,
  event: string,
): Promise<InclusionProof | undefined> {
  const checkpoint = seq < log.checkpoint.size ? log.checkpoint : await log.signNow();
  const { size, root, note } = checkpoint;
  const leaf = hashLeaf(Buffer.from(event));
  let hashes = log.proveInclusion(seq, size);
  if (!checkInclusion({ leaf, index: seq, size, hashes, root })) {
    // The tree files may be wrong. rebuildTree throws if the events are. It knows no single hash
    // of archived events, so for these the files have the last word.
    if (seq < log.firstSeq) return undefined;
    log.rebuildTree();
    hashes = log.proveInclusion(seq, size);
  }
  if (!checkInclusion({ leaf, index: seq, size, hashes, root })) return undefined;
  return {
    event,
    index: seq,
    size,
    root: root.toString('base64'),
    hashes: hashes.map((node) => node.toString('base64')),
    checkpoint: note,
    vkey: findSigner(note, log.vkeys),
  };
}

/** Returns the newest key that signed the note, which may precede the key in force. */
function findSigner(note: string, vkeys: readonly string[]): string {
  const { valid } = checkNote(parseNote(note), vkeys.map(parseVkey).reverse());
  return valid.at(-1)!.vkey;
}

/** Returns true if the proof is sound and the key signed its checkpoint. */
export function checkProof(proof: InclusionProof, vkey: string): boolean {
  const note = parseNote(proof.checkpoint);
  if (checkNote(note, [parseVkey(vkey)]).valid.length === 0) return false;
  const { size, root } = parseCheckpoint(note.text);
  if (size !== proof.size || root.toString('base64') !== proof.root) return false;
  const hashes = proof.hashes.map((text) => Buffer.from(text, 'base64'));
  const leaf = hashLeaf(Buffer.from(proof.event));
  return checkInclusion({ leaf, index: proof.index, size, hashes, root });
}
