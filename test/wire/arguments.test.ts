// Arguments written by a model: whatever they contain, the call ends with a result for the model,
// and never with a bug.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { tooldRoutes } from '../../src/wire/toold.ts';
import { callSocket, type IdleWorld, socketOf, startIdleWorld } from '../support/callers.ts';

describe('[R288] arguments of a tool call', () => {
  let world: IdleWorld;
  before(async () => {
    world = await startIdleWorld();
  });
  after(() => world.stop());
  let step = 0;
  const call = (tool: string, args: unknown) => {
    const body = { call_id: world.someRun.callId(step++), tool, arguments: args };
    return callSocket(socketOf(world, 'toold', 'run', world.someRun)!, tooldRoutes.call, { body });
  };

  it('of the wrong type, or for an unknown tool, are denied or fail with a message', async () => {
    const odd = [
      {},
      { text: 1 },
      { text: 'a', more: true },
      { text: null },
      JSON.parse('{"__proto__":{"text":"a"}}'),
      { text: 'a', delay_ms: -1 },
      { text: 'a', delay_ms: 1e308 },
    ];
    for (const tool of ['test.echo', 'no.such', '__proto__', 'constructor', 'git.status'])
      for (const args of odd) {
        const outcome = await call(tool, args);
        assert.ok(outcome.ok, `${tool} ${JSON.stringify(args)}: ${JSON.stringify(outcome)}`);
        if (!outcome.ok) continue;
        const { status, error } = outcome.value as { status: string; error?: { message: string } };
        assert.ok(['denied', 'failed'].includes(status), status);
        assert.ok((error?.message.length ?? 0) > 5);
      }
  });

  it('whose members shadow length and toString are no bug', async () => {
    const outcome = await call('artifact.put', { name: { length: { toString: 1 } }, text: 'x' });
    assert.ok(outcome.ok, JSON.stringify(outcome));
  });
});
