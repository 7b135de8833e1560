// A call is retried while its daemon restarts, and fails at once when the runtime is down.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type FaultCode, fault } from '../../wire/errors.ts';
import { retryWhileDown } from './retry-while-down.ts';
import { makeStateDir } from './testing/fake-runtime.ts';

function stateOf(pid: number): { stateDir: string } {
  const stateDir = makeStateDir();
  writeFileSync(join(stateDir, 'runtime.json'), JSON.stringify({ pid }));
  return { stateDir };
}

/** Fails with each of these codes, then responds; `calls` counts. */
function failing(...codes: FaultCode[]) {
  const state = { calls: 0 };
  const ask = async () => {
    const code = codes[state.calls++];
    if (code !== undefined) throw fault(code, 'away');
    return 'answer';
  };
  return { state, ask };
}

const { signal } = new AbortController();
const running = stateOf(process.pid);
const dead = stateOf(spawnSync('true').pid);

test('retries while a daemon is down and its runtime is up', async () => {
  const { ask, state } = failing('runtime_down', 'unavailable');
  assert.equal(await retryWhileDown(ask, running, signal), 'answer');
  assert.equal(state.calls, 3);
});

test('does not retry when the runtime is down, after a refusal, or after Ctrl-C', async () => {
  for (const [code, where, stop] of [
    ['runtime_down', dead, signal],
    ['not_found', running, signal],
    ['unauthenticated', running, signal],
    ['runtime_down', running, AbortSignal.abort()],
  ] as const) {
    const { ask, state } = failing(code, code);
    await assert.rejects(retryWhileDown(ask, where, stop), { code });
    assert.equal(state.calls, 1);
  }
});
