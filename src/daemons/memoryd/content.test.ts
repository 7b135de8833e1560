// Refusals and marks by what a text contains.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { isFault } from '../../platform/daemon.ts';
import { hostMemoryd, type MemoryHost, type MemoryWorld, makeWorld } from './testing/host.ts';

let world: MemoryWorld;
let host: MemoryHost;
beforeEach(async () => {
  world = makeWorld();
  host = await hostMemoryd(world);
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

/** Composed here, so that this file itself contains none. */
const TOKEN = `ghp_${'a7Kq2ZxP9mB4'.repeat(3)}`;

function stateContains(text: string): boolean {
  const paths = readdirSync(world.stateDir, { recursive: true, encoding: 'utf8' });
  return paths
    .map((path) => join(world.stateDir, path))
    .some((path) => statSync(path).isFile() && readFileSync(path).includes(text));
}

const refusal = (error: unknown): boolean => {
  assert.ok(isFault(error, 'bad_request'), String(error));
  assert.match(error.message, /GitHub token/);
  assert.ok(!JSON.stringify([error.message, error.hint, error.details]).includes(TOKEN));
  return true;
};

test('[R26] [R87] [R344] a secret is refused by its kind before anything is written, wherever it stands', async () => {
  const kept = await host.remember('The token is in the vault.');
  const harmless = { class: 'semantic', scope: 'project:app', text: 'a note' } as const;
  const ids = [kept.id, (await host.remember('It is rotated weekly.')).id];
  const text = `Push with ${TOKEN}.`;
  const attempts = [
    () => host.remember(text),
    () => host.remember('a picture', { caption: text }),
    () => host.alice.remember({ body: { memories: [harmless, { ...harmless, text }] } }),
    () => host.alice.proposeMemory({ body: { ...harmless, text } }),
    () => host.alice.editMemory({ params: { id: kept.id }, body: { text } }),
    () => host.alice.merge({ body: { ids, text } }),
    () => host.alice.summarize({ body: { ids, text } }),
  ];
  for (const attempt of attempts) await assert.rejects(attempt(), refusal);
  for (const secret of [
    `-----BEGIN RSA PRIVATE${' KEY-----'}\nMIIEowIBAAKCAQEA`,
    'The password of the router is Tr0ub4dor&3.',
    'Cookie: session_id=a7Kq2ZxP9mB4LrT8vYc3',
    'postgres://app:s3cretpass@db.internal/app',
    `api_key = "${TOKEN.slice(4)}"`,
  ])
    await assert.rejects(host.remember(secret), (error) => isFault(error, 'bad_request'), secret);
  assert.equal(stateContains(TOKEN), false);
  const { memories } = await host.alice.listMemories({ query: {} });
  assert.equal(memories.length, ids.length, 'nothing of a batch with a secret is kept');
  await host.remember('control: the word is remembered');
  assert.ok(stateContains('control: the word is remembered'));
});

test('personal data gets its mark, which a person can take off again', async () => {
  const memory = await host.remember('Maria answers at maria.lopez@firma.co.uk.');
  assert.deepEqual(memory.labels, ['person', 'personal']);
  assert.deepEqual((await host.remember('The office opens at nine.')).labels, ['person']);
  const { memory: vouched } = await host.alice.editMemory({
    params: { id: memory.id },
    body: { vouch: true },
  });
  assert.deepEqual(vouched.labels, ['person']);
});
