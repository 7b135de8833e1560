// Checks proofs with an independent verifier, written from the specifications without our code.
import assert from 'node:assert/strict';
import { createHash, createPublicKey, verify } from 'node:crypto';
import fs from 'node:fs';
import { test } from 'node:test';
import {
  bodies,
  body,
  isFault,
  makeDir,
  open,
  readLines,
  segmentPath,
  writeLines,
} from './fixture.ts';
import { checkProof, type InclusionProof, proveEvent } from './prove.ts';

// ---- the independent verifier: RFC 6962 2.1, RFC 9162 2.1.3.2, C2SP signed-note, tlog-checkpoint
const sha256 = (...parts: Uint8Array[]): Buffer =>
  parts.reduce((h, part) => h.update(part), createHash('sha256')).digest();

function independentlyVerifies(proof: InclusionProof, vkey: string): boolean {
  const [name, id] = vkey.split('+', 2) as [string, string];
  const key = Buffer.from(vkey.slice(name.length + id.length + 2), 'base64');
  if (key[0] !== 1 || key.length !== 33) return false;
  const keyId = sha256(Buffer.from(`${name}\n`), key).subarray(0, 4);
  if (keyId.toString('hex') !== id) return false;
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), key.subarray(1)]);
  const publicKey = createPublicKey({ key: spki, format: 'der', type: 'spki' });

  const cut = proof.checkpoint.lastIndexOf('\n\n') + 1;
  const text = proof.checkpoint.slice(0, cut);
  const isSigned = proof.checkpoint
    .slice(cut + 1)
    .split('\n')
    .filter((line) => line.startsWith(`— ${name} `))
    .map((line) => Buffer.from(line.slice(name.length + 3), 'base64'))
    .some(
      (s) =>
        s.subarray(0, 4).equals(keyId) && verify(null, Buffer.from(text), publicKey, s.subarray(4)),
    );
  const [, sizeText, rootText] = text.split('\n');
  const root = Buffer.from(rootText ?? '', 'base64');
  if (!isSigned || Number(sizeText) !== proof.size || proof.index >= proof.size) return false;

  let fn = BigInt(proof.index);
  let sn = BigInt(proof.size - 1);
  let r = sha256(Buffer.of(0), Buffer.from(proof.event));
  for (const p of proof.hashes.map((h) => Buffer.from(h, 'base64'))) {
    if (sn === 0n) return false;
    if ((fn & 1n) === 1n || fn === sn) {
      r = sha256(Buffer.of(1), p, r);
      while ((fn & 1n) === 0n && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else {
      r = sha256(Buffer.of(1), r, p);
    }
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && r.equals(root);
}
// ----------------------------------------------------------------------------------------------

test('every event of a log can be proven to a third party, and no other line', async (t) => {
  const log = await open(makeDir(t), { segmentBytesMax: 2_000 });
  for (let n = 0; n < 5; n += 1) await log.append(bodies(n * 13, 13));
  await log.signNow();
  for (let seq = 0; seq < log.size; seq += 1) {
    const proof = await proveEvent(log, seq);
    assert.equal(JSON.parse(proof.event).seq, seq);
    assert.ok(independentlyVerifies(proof, log.vkey));
    assert.ok(checkProof(proof, log.vkey));
    const changes: Partial<InclusionProof>[] = [
      { event: proof.event.replace('task', 'tusk') },
      { index: (seq + 1) % log.size },
      { hashes: proof.hashes.slice(1) },
      { hashes: proof.hashes.with(0, proof.root) },
      { checkpoint: proof.checkpoint.replace('\n65\n', '\n66\n'), size: 66 },
    ];
    for (const change of changes) {
      assert.ok(!independentlyVerifies({ ...proof, ...change }, log.vkey));
      assert.ok(!checkProof({ ...proof, ...change }, log.vkey));
    }
  }
  await log.close();
});

test('an event not signed yet is signed first; a missing one is not found', async (t) => {
  const log = await open(makeDir(t));
  await log.append(bodies(0, 3));
  assert.equal(log.checkpoint.size, 0);
  const proof = await proveEvent(log, 2);
  assert.equal(proof.size, 3);
  assert.ok(independentlyVerifies(proof, log.vkey));
  for (const seq of [-1, 3]) await assert.rejects(proveEvent(log, seq), isFault('not_found'));
  await log.close();
});

test('a proof under an old key names that key, and another key does not accept it', async (t) => {
  const log = await open(makeDir(t));
  await log.append(bodies(0, 3));
  const early = await proveEvent(log, 1);
  const { vkey, previous } = await log.rotateKey();
  const late = await proveEvent(log, 1);
  assert.equal(early.vkey, previous);
  assert.equal(late.vkey, vkey);
  assert.ok(independentlyVerifies(early, previous) && !independentlyVerifies(early, vkey));
  assert.ok(independentlyVerifies(late, vkey) && independentlyVerifies(late, previous));
  await log.close();
});

test('wrong tree files are rebuilt before a proof is returned', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 40));
  await log.signNow();
  fs.writeFileSync(`${dir}/tree/L00`, Buffer.alloc(40 * 32, 9));
  const proof = await proveEvent(log, 17);
  assert.ok(independentlyVerifies(proof, log.vkey));
  await log.append([body(40)]);
  assert.ok(independentlyVerifies(await proveEvent(log, 40), log.vkey));
  await log.close();
});

test('an event that was changed on disk cannot be proven', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  const lines = readLines(segmentPath(dir));
  writeLines(segmentPath(dir), lines.with(4, lines[4]!.replace('task', 'tusk')));
  await assert.rejects(proveEvent(log, 4), isFault('log_damaged'));
  await log.close();
});
