// Arguments that a model writes are data of its own: whatever they hold, the call is answered for
// the model to read, and never with a bug.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { tooldRoutes } from '../../src/wire/toold.ts';
import { askSocket, type Quiet, socketOf, startQuiet } from '../support/callers.ts';

describe('[R288] arguments of a tool call', () => {
  let world: Quiet;
  before(async () => {
    world = await startQuiet();
  });
  after(() => world.stop());
  let step = 0;
  const call = (tool: string, args: unknown) => {
    const body = { call_id: world.someRun.callId(step++), tool, arguments: args };
    return askSocket(socketOf(world, 'toold', 'run', world.someRun)!, tooldRoutes.call, { body });
  };

  it('of the wrong kind, or for a tool there is not, are denied or failed with words', async () => {
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
        const answer = await call(tool, args);
        assert.ok(answer.ok, `${tool} ${JSON.stringify(args)}: ${JSON.stringify(answer)}`);
        if (!answer.ok) continue;
        const { status, error } = answer.value as { status: string; error?: { message: string } };
        assert.ok(['denied', 'failed'].includes(status), status);
        assert.ok((error?.message.length ?? 0) > 5);
      }
  });

  it('whose members shadow length and toString are no bug', async () => {
    const answer = await call('artifact.put', { name: { length: { toString: 1 } }, text: 'x' });
    assert.ok(answer.ok, JSON.stringify(answer));
  });
});
