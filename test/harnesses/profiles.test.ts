// The profiles: found by the name of a command or their own, and in agreement with the rest.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findProfile, PROFILES } from '../../src/clients/agentctl/box/profiles/index.ts';
import { MODEL_URL } from '../../src/clients/agentctl/box/profiles/profile.ts';
import { MODEL_URL as BOX_URL } from '../../src/policy/box-models.ts';
import { ProgramCommand } from '../../src/wire/sandboxd/programs.ts';
import { ROOT } from '../support/runtime.ts';

test('the models are where the box has them', () => assert.equal(MODEL_URL, BOX_URL));

test('a profile is that of the command, wherever it is, or the one that was named', () => {
  assert.equal(findProfile(undefined, '/opt/x/claude').name, 'claude-code');
  assert.equal(findProfile(undefined, 'vim').name, 'generic');
  assert.equal(findProfile('codex', 'vim').name, 'codex');
  assert.throws(() => findProfile('codecs', 'vim'), /there is no profile codecs/);
});

test('each can be sent, and is in the documentation with its version', () => {
  const text = readFileSync(`${ROOT}/docs/harnesses.md`, 'utf8');
  for (const { name, env, homeFiles, package: from } of PROFILES) {
    ProgramCommand.parse({ argv: ['x'], env, home_files: homeFiles });
    assert.ok(text.includes(`| ${name} |`), name);
    if (from !== undefined) assert.ok(text.includes(`${from.name} ${from.version}`), from.name);
  }
});
