// Compares signed notes with published examples, and rejects malformed ones.
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { Fault } from '../../../wire/errors.ts';
import {
  checkNote,
  formatCheckpoint,
  makeSigner,
  parseCheckpoint,
  parseNote,
  parseVkey,
  signNote,
} from './note.ts';

// From the reference implementation (golang.org/x/mod/sumdb/note).
const PETER = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const PETER_SEED = 'AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz';
const ENOCH = 'EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop';
const TEXT =
  'If you think cryptography is the answer to your problem,\n' +
  "then you don't know what your problem is.\n";
const PETER_SIG =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXg' +
  'KvqfqdngotpRZb6KE6RyyBwJnAM=\n';
const ENOCH_SIG =
  '— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ov' +
  'TG01oOTGwnWLox33WWd1RvMc+QQ=\n';
const names = (keys: { name: string }[]): string[] => keys.map((key) => key.name);

function peterSigner() {
  const seed = Buffer.from(PETER_SEED, 'base64').subarray(1);
  const head = Buffer.from('302e020100300506032b657004220420', 'hex');
  const key = createPrivateKey({
    key: Buffer.concat([head, seed]),
    format: 'der',
    type: 'pkcs8',
  });
  return makeSigner('PeterNeumann', key);
}

test('signing produces the reference note byte for byte', () => {
  const signer = peterSigner();
  assert.equal(signer.vkey, PETER);
  assert.equal(signNote(TEXT, [signer]), `${TEXT}\n${PETER_SIG}`);
});

test('reference signatures verify; unknown keys are ignored; a wrong one is named', () => {
  const [peter, enoch] = [parseVkey(PETER), parseVkey(ENOCH)];
  const note = parseNote(`${TEXT}\n${PETER_SIG}${ENOCH_SIG}`);
  assert.equal(note.text, TEXT);
  assert.deepEqual(names(checkNote(note, [peter, enoch]).valid), ['PeterNeumann', 'EnochRoot']);
  assert.deepEqual(names(checkNote(note, [peter]).valid), ['PeterNeumann']);
  assert.deepEqual(checkNote(note, []), { valid: [], wrong: [] });
  const changed = parseNote(`${TEXT.replace('think', 'thinK')}\n${PETER_SIG}`);
  assert.deepEqual(checkNote(changed, [peter, enoch]), { valid: [], wrong: [peter] });
});

test('text may contain empty lines', () => {
  const signer = peterSigner();
  const text = 'one\n\ntwo\n';
  const note = parseNote(signNote(text, [signer]));
  assert.equal(note.text, text);
  assert.equal(checkNote(note, [signer]).valid.length, 1);
});

test('malformed notes are refused', () => {
  const bad = [
    '',
    TEXT,
    `${TEXT}\n`,
    `${TEXT}\n${PETER_SIG.slice(0, -1)}`,
    `\x01${TEXT}\n${PETER_SIG}`,
    `\t${TEXT}\n${PETER_SIG}`,
    `${TEXT}\n— Bad Name ${PETER_SIG.slice(15)}`,
    `${TEXT}\n— Bad+Name ${PETER_SIG.slice(15)}`,
    `${TEXT}\n- PeterNeumann ${PETER_SIG.slice(15)}`,
    `${TEXT}\n${PETER_SIG}Unexpected line.\n`,
    `${TEXT}\n${PETER_SIG.replace('=', '')}`,
    `${TEXT}\n— PeterNeumann AAAA\n`,
    `${TEXT}\n${PETER_SIG.repeat(101)}`,
  ];
  for (const note of bad) assert.throws(() => parseNote(note), Fault, JSON.stringify(note));
});

test('every malformed verifier key is refused', () => {
  for (let i = 0; i < PETER.length; i += 1) {
    for (let j = i + 1; j <= PETER.length; j += 1) {
      if (i === 0 && j === PETER.length) continue;
      assert.throws(() => parseVkey(PETER.slice(i, j)), Fault);
    }
    const up = String.fromCharCode(PETER.charCodeAt(i) + 1);
    assert.throws(() => parseVkey(PETER.slice(0, i) + up + PETER.slice(i + 1)), Fault);
  }
  // A wrong length and an unknown algorithm, each with the matching id.
  const wrongLength = 'PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==';
  const wrongType = 'PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
  assert.throws(() => parseVkey(wrongLength), Fault);
  assert.throws(() => parseVkey(wrongType), Fault);
});

test('a key name with a space or a plus is refused', () => {
  const { privateKey } = generateKeyPairSync('ed25519');
  for (const name of ['', 'a b', 'a+b', 'a\nb', 'a\u2003b']) {
    assert.throws(() => makeSigner(name, privateKey), { code: 'bad_config' });
  }
});

test("a checkpoint is read back as written, and the specification's example is read", () => {
  const root = Buffer.alloc(32, 7);
  const text = formatCheckpoint({ origin: 'example.com/log', size: 20852163, root });
  assert.deepEqual(parseCheckpoint(text), { origin: 'example.com/log', size: 20852163, root });
  const note = parseNote(
    'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n' +
      '— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe' +
      '4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n',
  );
  assert.equal(parseCheckpoint(note.text).size, 20852163);
  assert.equal(parseCheckpoint(`${text}an extension\n`).size, 20852163);
});

test('malformed checkpoints are refused', () => {
  const root = Buffer.alloc(32).toString('base64');
  const bad = [
    `o\n01\n${root}\n`,
    `o\n-1\n${root}\n`,
    `o\n1.5\n${root}\n`,
    `o\n\n${root}\n`,
    `\n1\n${root}\n`,
    `o\n1\n${root.slice(4)}\n`,
    `o\n1\n${root}`,
    `o\n1\n${root}\n\nmore\n`,
    `o\n9999999999999999999\n${root}\n`,
    'o\n1\n',
    '',
  ];
  for (const text of bad) assert.throws(() => parseCheckpoint(text), Fault, JSON.stringify(text));
});
