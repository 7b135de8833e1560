// Who waits goes on over the gap while the runtime lives, and is told at once when it does not.
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

/** Fails with each of these, then answers; `asked` counts. */
function failing(...codes: FaultCode[]) {
  const state = { asked: 0 };
  const ask = async () => {
    const code = codes[state.asked++];
    if (code !== undefined) throw fault(code, 'away');
    return 'answer';
  };
  return { state, ask };
}

const { signal } = new AbortController();
const here = stateOf(process.pid);
const gone = stateOf(spawnSync('true').pid);

test('asks again while a daemon is away and its runtime is there', async () => {
  const { ask, state } = failing('runtime_down', 'unavailable');
  assert.equal(await retryWhileDown(ask, here, signal), 'answer');
  assert.equal(state.asked, 3);
});

test('not when the runtime is gone, for a refusal, or after Ctrl-C', async () => {
  for (const [code, where, stop] of [
    ['runtime_down', gone, signal],
    ['not_found', here, signal],
    ['unauthenticated', here, signal],
    ['runtime_down', here, AbortSignal.abort()],
  ] as const) {
    const { ask, state } = failing(code, code);
    await assert.rejects(retryWhileDown(ask, where, stop), { code });
    assert.equal(state.asked, 1);
  }
});
